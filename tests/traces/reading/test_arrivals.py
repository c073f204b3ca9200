"""Arrival laws: how they are written, their means and variations, one generator, one seed."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from kvsim.traces import ArrivalRule, TraceError, arrival_rule, read_trace, session_start_rule

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize(
    ("text", "kind", "rate", "parameter"),
    [
        ("poisson", "poisson", None, 1),
        (" poisson ( rate = 3.5 ) ", "poisson", 3.5, 1),
        ("rate=3.5", "rate", 3.5, 1),
        ("gamma(cv=2)", "gamma", None, 2),
        ("gamma(rate=1,cv=0.5)", "gamma", 1, 0.5),
        ("weibull(shape=0.7)", "weibull", None, 0.7),
    ],
)
def test_laws_as_written(text: str, kind: str, rate: float | None, parameter: float) -> None:
    rule = ArrivalRule.parse(text)
    assert (rule.kind, rule.rate_per_s, rule.parameter) == (kind, rate, parameter)
    assert ArrivalRule.parse(str(rule)) == rule


@pytest.mark.parametrize(
    "text",
    ["", "closed loop", "rate", "rate=", "rate=0", "rate=-1", "rate=nan", "rate=1e400", "gamma",
     "gamma(cv=0)", "gamma(shape=2)", "poisson(cv=1)", "weibull(shape=x)", "poisson(", "3",
     "normal(cv=1)", "rate(rate=1)", "weibull(shape=1e-9)", "gamma(cv=1e9)", "gamma(cv=1e-9)"],
)  # fmt: skip
def test_other_laws_are_one_sentence(text: str) -> None:
    with pytest.raises(TraceError, match="--arrivals is") as caught:
        ArrivalRule.parse(text)
    assert "\n" not in str(caught.value)


def test_even_spacing_is_exact() -> None:
    times = ArrivalRule.parse("rate=4").times_ns(5, np.random.default_rng(0))
    assert times.tolist() == [0, 250_000_000, 500_000_000, 750_000_000, 1_000_000_000]


@pytest.mark.parametrize(
    ("text", "variation"),
    [
        ("poisson(rate=5)", 1.0),
        ("gamma(cv=2,rate=5)", 2.0),
        ("gamma(cv=0.5,rate=5)", 0.5),
        ("weibull(shape=0.5,rate=5)", 5**0.5),  # Gamma(5) / Gamma(3)^2 - 1 = 5
    ],
)
def test_gaps_have_the_mean_and_variation_they_say(text: str, variation: float) -> None:
    times = ArrivalRule.parse(text).times_ns(400_000, np.random.default_rng(1))
    gaps = np.diff(times)
    assert times[0] == 0
    assert (gaps >= 0).all()
    assert gaps.mean() == pytest.approx(2e8, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(variation, rel=0.03)


def test_a_stream_has_the_law_of_the_whole() -> None:
    rule = ArrivalRule.parse("poisson(rate=2)")
    times = np.array(list(islice(rule.stream_ns(np.random.default_rng(2)), 50_000)))
    assert times[0] == 0
    assert np.diff(times).mean() == pytest.approx(5e8, rel=0.02)


def test_rate_and_arrivals_together() -> None:
    assert arrival_rule(None, None) is None
    assert arrival_rule("recorded", None) is None
    assert arrival_rule(None, "3") == ArrivalRule("rate", 3)
    assert arrival_rule("poisson", "3") == ArrivalRule("poisson", 3)
    assert arrival_rule("rate=3", 3.0) == ArrivalRule("rate", 3)
    with pytest.raises(TraceError, match="recorded contradicts --rate"):
        arrival_rule("recorded", "3")
    with pytest.raises(TraceError, match="leave one of them out"):
        arrival_rule("rate=4", "3")
    with pytest.raises(TraceError, match="--rate is 'x'"):
        arrival_rule(None, "x")
    assert session_start_rule(None, "2") == ArrivalRule("poisson", 2)
    assert session_start_rule("rate=2", None) == ArrivalRule("rate", 2)
    with pytest.raises(TraceError, match="--session-starts"):
        session_start_rule("rate=4", "3")


def test_drawn_arrivals_are_seeded_and_keep_lengths() -> None:
    one = read_trace(DATA / "fleet_sim.csv", arrivals="poisson(rate=3)", seed=4)
    same = read_trace(DATA / "fleet_sim.csv", arrivals="poisson(rate=3)", seed=4)
    other = read_trace(DATA / "fleet_sim.csv", arrivals="poisson(rate=3)", seed=5)
    assert one.arrival_ns.tolist() == same.arrival_ns.tolist()
    assert one.arrival_ns.tolist() != other.arrival_ns.tolist()
    assert one.prompt_tokens.tolist() == [689, 231, 1761]
    assert one.receipt is not None
    assert (
        "arrival times drawn by poisson(rate=3); the times of the file are not used"
        in one.receipt.notes
    )


def test_without_a_rate_the_recorded_one_holds() -> None:
    trace = read_trace(DATA / "fleet_sim.csv", arrivals=ArrivalRule("rate"))
    assert trace.arrival_ns.tolist() == [0, 6_000_000, 12_000_000]
    with pytest.raises(TraceError, match="needs a rate"):
        read_trace(DATA / "vidur_lengths.csv", arrivals="poisson")


def test_turns_are_not_torn_apart() -> None:
    with pytest.raises(TraceError, match="requests of this trace follow each other"):
        read_trace(DATA / "bailian.jsonl", arrivals="poisson(rate=3)")


def test_times_beyond_the_clock_are_refused() -> None:
    with pytest.raises(TraceError, match="raise the rate"):
        ArrivalRule.parse("rate=1e-9").times_ns(1000, np.random.default_rng(0))
