"""Goodput and TTFT over arrival rates, from real runs at three rates."""

from __future__ import annotations

import numpy as np
import pytest

from kvsim.sim.comparison.comparison import Comparison, compare
from kvsim.sim.comparison.pages.rate_charts import rate_charts
from kvsim.sim.comparison.scenarios import allocator_scenarios
from kvsim.traces.common.text import seconds
from kvsim.traces.trace.trace import Trace


@pytest.fixture(scope="module")
def result() -> Comparison:
    ones = np.ones(40, dtype=np.int64)
    trace = Trace("steady", np.arange(40) * 10**9, ones * 64, ones * 8)
    values: dict[str, object] = {"slo.ttft": "10s", "engine.kv_memory": "1GiB"}
    values |= {"engine.max_model_len": 1024}
    named = allocator_scenarios("paged,orca-max")
    scenarios = {name: scenario.with_values(values) for name, scenario in named.items()}
    return compare(trace, scenarios, jobs=1, rate_scale=["2", 1, "3/2"])


def test_rows_are_named_by_their_rate(result: Comparison) -> None:
    names = [row.name for row in result.rows]
    assert names[:3] == ["paged, rate x 2", "paged, rate x 1", "paged, rate x 3/2"]
    assert [row.rate_scale for row in result.rows[:3]] == ["2", "1", "3/2"]
    rates = [row.metrics.arrivals_per_s for row in result.rows[:3]]
    assert rates == pytest.approx([2, 1, 1.5])


def test_one_curve_a_system_slowest_first(result: Comparison) -> None:
    served, ttft = rate_charts(result.rows)
    arrivals, paged, orca = served.figure.data
    assert (arrivals.name, paged.name, orca.name) == ("arrival rate", "paged", "orca-max")
    assert list(paged.x) == pytest.approx([1, 1.5, 2])
    goodput = [result.rows[place].metrics.goodput_requests_per_s for place in (1, 2, 0)]
    assert list(paged.y) == pytest.approx(goodput, rel=1e-4)
    assert served.title == "Goodput against arrival rate"
    assert [curve.name for curve in ttft.figure.data] == ["paged", "orca-max"]
    assert result.plot.rates().data[1].name == "paged"


def test_words_below_are_the_ends_of_the_curves(result: Comparison) -> None:
    _, ttft = rate_charts(result.rows)
    slow, fast = (seconds(result.rows[place].metrics.ttft_s_p99) for place in (1, 0))
    told = f"At the lowest and at the highest rate: paged: {slow} and {fast}, orca-max: "
    assert ttft.summary.startswith(told)


def test_the_best_is_sought_at_one_rate(result: Comparison) -> None:
    html = result._repr_html_()
    assert html.count("<tr>") == 7
    assert len(result.frame) == 6
    assert result.frame["rate_scale"].tolist()[:2] == ["2", "1"]


def test_one_rate_has_no_curve(result: Comparison) -> None:
    assert rate_charts(result.rows[:1]) == []
    with pytest.raises(ValueError, match="only one rate"):
        Comparison(result.traces, result.rows[:1]).plot.rates()


def test_a_rate_is_named_once() -> None:
    with pytest.raises(ValueError, match="rate scales 2, 1, 2: one is there twice"):
        compare((), {}, rate_scale=["2", 1, "4/2"])
