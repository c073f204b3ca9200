"""Runs over time: extremes are kept, curves have few points, the best is starred, axes are full."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.sim.comparison.comparison import compare
from kvsim.sim.comparison.pages.thumbnail_charts import MOST_PANELS, thumbnail_charts
from kvsim.sim.comparison.scenarios import allocator_scenarios
from kvsim.sim.comparison.thumbnail import MOST_POINTS, thumbnail_of
from kvsim.sim.metrics.shares import STATES
from kvsim.sim.metrics.tables import series_table
from kvsim.traces import Trace
from kvsim.traces.common.text import seconds
from tests.page_kinds import small_comparison, small_run

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from numpy.typing import NDArray

    from kvsim.sim.comparison.row import Row

    Numbers = NDArray[np.float64]

FEW = MOST_POINTS + 2


def test_a_thumbnail_keeps_the_extremes_in_few_points() -> None:
    run = small_run()
    series = series_table(run.engine.recorder, run.setup.pool)
    thumbnail = thumbnail_of(series)
    used = 100 - thumbnail.kv_percent["free"] - thumbnail.kv_percent["cached"]
    pool = run.setup.pool.pool_bytes
    all_used = 100 * (1 - (series["free_bytes"] + series["cached_bytes"]) / pool)
    assert len(all_used) > 4 * MOST_POINTS
    assert (used.min(), used.max()) == pytest.approx((all_used.min(), all_used.max()))
    assert sum(thumbnail.kv_percent.values()) == pytest.approx(np.full(len(used), 100))
    for (times_s, values), name in ((thumbnail.running, "running"), (thumbnail.waiting, "waiting")):
        assert len(times_s) == len(values) <= FEW
        assert values.max() == series[name].max()
    assert len(thumbnail.kv_s) <= FEW
    assert thumbnail.waited_s == pytest.approx(sum(run.engine.recorder.waited_ps.values()) / 1e12)


def test_panels_have_the_curves_of_their_runs() -> None:
    rows = small_comparison().rows
    memory, queue = (chart.figure for chart in thumbnail_charts(rows))
    panels = [f"x{place or ''}" for place in (0, 2, 3)]
    for panel, row in zip(panels, rows, strict=True):
        areas = [area for area in memory.data if area.xaxis == panel]
        heights = np.sum([area.y for area in areas], axis=0)
        assert heights == pytest.approx(np.full(len(heights), 100), abs=0.2 * len(STATES))
        assert {area.meta["panel"] for area in areas} == {row.name}
        waiting, running = (curve for curve in queue.data if curve.xaxis == panel)
        assert (max(waiting.y), max(running.y)) == pytest.approx(
            (row.thumbnail.waiting[1].max(), row.thumbnail.running[1].max()), rel=1e-4
        )
    for figure in (memory, queue):
        others = [axis for axis in figure.select_yaxes() if axis.anchor != "x"]
        assert {axis.matches for axis in others} == {"y"}
        shown = [curve.name for curve in figure.data if curve.showlegend]
        assert len(shown) == len(set(shown)) == len({curve.name for curve in figure.data})


def test_the_best_is_starred_and_named() -> None:
    rows = small_comparison().rows
    memory, queue = thumbnail_charts(rows)
    least = min(rows, key=lambda row: row.thumbnail.waited_s).name
    (starred,) = [title.text for title in queue.figure.layout.annotations if "\u2605" in title.text]
    assert starred == f"<b>{least} \u2605</b>"
    assert queue.summary.startswith(f"Least waiting time (starred): {least}. End of the run: ")
    tokens = {row.name: share.token for row in rows if (share := row.kv_bytes_share.while_waiting)}
    assert max(tokens, key=tokens.__getitem__) in memory.summary


def test_a_run_that_refuses_requests_has_not_waited_least() -> None:
    rows = list(small_comparison().rows)
    least = min(range(len(rows)), key=lambda place: rows[place].thumbnail.waited_s)
    rows[least] = replace(rows[least], metrics=replace(rows[least].metrics, refused=1))
    starred, _, _ = thumbnail_charts(rows)[1].summary.partition(".")
    assert rows[least].name not in starred


def ranges(figure: go.Figure) -> list[tuple[float, float]]:
    """Ranges of the time axes of panels that show a run."""
    return [axis.range for axis in figure.select_xaxes() if axis.range is not None]


def lasting(row: Row, times: float) -> Row:
    """Return a row whose run takes several times as long."""
    found = row.thumbnail
    stretched = found._replace(
        kv_s=times * found.kv_s,
        running=(times * found.running[0], found.running[1]),
        waiting=(times * found.waiting[0], found.waiting[1]),
    )
    in_use = replace(row.kv_in_use, seconds=times * row.kv_in_use.seconds)
    return replace(row, name=f"{row.name} x {times}", thumbnail=stretched, kv_in_use=in_use)


def test_runs_of_about_the_same_length_have_the_same_time_axis() -> None:
    row = small_comparison().rows[0]
    for chart in thumbnail_charts([row, lasting(row, 1.9)]):
        longer_s = 1.9 * row.kv_in_use.seconds
        ends_s = [end_s for start_s, end_s in ranges(chart.figure) if start_s == 0]
        assert ends_s == pytest.approx([longer_s] * 2, rel=1e-3)
        assert "All panels have the same axes" in chart.see


def test_a_run_that_ends_much_earlier_fills_its_own_time_axis() -> None:
    row = small_comparison().rows[0]
    for chart in thumbnail_charts([row, lasting(row, 6.0)]):
        (_, short_s), (_, long_s) = ranges(chart.figure)
        assert short_s == pytest.approx(row.kv_in_use.seconds, rel=1e-3)
        assert long_s == pytest.approx(6 * short_s, rel=1e-3)
        assert {axis.matches for axis in chart.figure.select_xaxes()} == {None}
        assert "own time axis" in chart.see
        short, long = (seconds(times * row.kv_in_use.seconds) for times in (1, 6))
        assert f"End of the run: {row.name} {short}, {row.name} x 6.0 {long}." in chart.summary


def test_an_almost_empty_end_of_a_run_is_cut() -> None:
    row = small_comparison().rows[0]
    found, end_s = row.thumbnail, row.kv_in_use.seconds
    alone_s = np.array([2 * end_s, 9 * end_s])

    def longer(curve: tuple[Numbers, Numbers], requests: float) -> tuple[Numbers, Numbers]:
        return np.concatenate([curve[0], alone_s]), np.concatenate([curve[1], [requests] * 2])

    tail = found._replace(running=longer(found.running, 0.01), waiting=longer(found.waiting, 0))
    in_use = replace(row.kv_in_use, seconds=9 * end_s)
    rows = [replace(row, thumbnail=tail, kv_in_use=in_use)]
    for chart in thumbnail_charts(rows):
        ((start_s, shown_s),) = ranges(chart.figure)
        assert start_s == 0
        assert 0.9 * end_s <= shown_s < 2.5 * end_s
        assert f"Cut where almost no requests are left: {row.name}." in chart.summary


def test_each_trace_has_charts_of_its_own_within_the_limit_of_panels() -> None:
    row = small_comparison().rows[0]
    rows = [
        replace(row, name=f"s{place}, {trace}", trace=trace)
        for place in range(25)
        for trace in ("first", "second")
    ]
    charts = thumbnail_charts(rows)
    assert [chart.title for chart in charts[::2]] == [
        "KV memory over time: first",
        "KV memory over time: second",
    ]
    titles = [[title.text for title in chart.figure.layout.annotations] for chart in charts]
    assert [len(some) for some in titles] == [25, 25, 11, 11]
    assert titles[0][:2] == titles[2][:2] == ["s0", "s1"]
    assert "The first 36 of 50 runs are drawn." in charts[0].summary


def test_many_runs_are_cut_and_told() -> None:
    row = small_comparison().rows[0]
    rows = [replace(row, name=f"a name that is too long for a line, {i}") for i in range(50)]
    for chart in thumbnail_charts(rows):
        assert f"The first {MOST_PANELS} of 50 runs are drawn." in chart.summary
        titles = [title.text for title in chart.figure.layout.annotations]
        assert len(titles) == len(set(titles)) == MOST_PANELS
        assert "<br>" in titles[0]


def test_names_of_varied_keys_stay_whole_in_titles() -> None:
    row = small_comparison().rows[0]
    policies = ("lru", "furthest-next-use")
    rows = [replace(row, name=f"prefix, eviction.policy={policy}") for policy in policies]
    titles = [title.text for title in thumbnail_charts(rows)[0].figure.layout.annotations]
    assert titles == ["prefix, policy=lru", "prefix,<br>policy=furthest-next-use"]


def test_winners_whose_names_hold_commas_are_told_apart() -> None:
    rows = small_comparison().rows
    least = min(rows, key=lambda row: row.thumbnail.waited_s)
    both = [replace(least, name=f"same, rate x {rate}") for rate in (1, 2)]
    waiting = thumbnail_charts([*rows, *both])[1]
    told = f"{least.name}; same, rate x 1; same, rate x 2"
    assert waiting.summary.startswith(f"Least waiting time (starred): {told}. ")


def test_where_no_time_passed_there_is_no_chart() -> None:
    one = np.ones(1, dtype=np.int64)
    refused = Trace("too long", one * 0, one * 10**6, one)
    result = compare(refused, allocator_scenarios("paged"), jobs=1)
    assert thumbnail_charts(result.rows) == []
    with pytest.raises(ValueError, match="no time passed"):
        result.plot.kv()
    plot = small_comparison().plot
    assert len(plot.kv().data) > len(plot.queue().data) == 6
