"""What a notebook gets of a run and a comparison: tables, frames, figures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.page_kinds import small_comparison, small_run

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "<script>alert(1)</script>"


def test_a_run_is_a_short_table() -> None:
    run = small_run()
    html = replace(run, trace=replace(run.trace, name=EVIL))._repr_html_()
    assert len(html) < 3000
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "120 of 120 finished" in html


def test_a_run_has_frames_and_figures() -> None:
    run = small_run()
    assert len(run.requests) == 120
    assert {"running", "waiting_blocks", "preemptions"} <= {*run.series.columns}
    latencies = ("latency", "latency_over_time", "gaps_over_time")
    for name in ("kv", "queue", *latencies, "preemptions", "swapping", "steps"):
        figure = getattr(run.plot, name)()
        assert all(len(curve.x) for curve in figure.data), name
        assert figure.layout.template.layout.colorway, "its own look, not the page's"
    with pytest.raises(ValueError, match="nothing to draw: Prefix cache hits: no prompt"):
        run.plot.hits()


def test_states_of_a_figure_add_up_to_the_pool() -> None:
    run = small_run()
    heights = [sum(values) for values in zip(*(c.y for c in run.plot.kv().data), strict=True)]
    assert heights == pytest.approx([run.setup.pool.pool_bytes / 2**30] * len(heights), rel=1e-3)


def test_causes_of_waiting_add_up_to_the_queue() -> None:
    run = small_run()
    areas = [curve for curve in run.plot.queue().data if curve.stackgroup]
    heights = [sum(values) for values in zip(*(curve.y for curve in areas), strict=True)]
    assert heights == pytest.approx(run.series["waiting"].tolist(), rel=1e-3, abs=1e-3)


def test_parts_of_steps_add_up_to_all_time() -> None:
    areas = small_run().plot.steps().data
    assert {"weights", "KV of decodes"} <= {curve.name for curve in areas}
    heights = [sum(values) for values in zip(*(curve.y for curve in areas), strict=True)]
    assert heights == pytest.approx([100] * len(heights), rel=1e-3)


def test_bars_add_up_to_the_count() -> None:
    run = small_run()
    (bars,) = run.plot.preemptions().data
    assert sum(bars.y) == run.series["preemptions"].sum() > 0


def test_a_comparison_is_a_short_table_and_a_frame() -> None:
    found = small_comparison()
    rows = tuple(replace(row, name=EVIL) for row in found.rows)
    html = replace(found, rows=rows)._repr_html_()
    assert len(html) < 3000
    assert "<script" not in html
    frame = found.frame
    assert frame["name"].tolist() == ["orca-oracle", "paged", "prefix"]
    assert frame["ttft_s_p99"].tolist() == [row.metrics.ttft_s_p99 for row in found.rows]
    shares = frame[[f"{state}_share" for state in ("token", "reserved", "internal")]]
    assert (shares.sum(axis=1) <= 1).all()
    assert len([bar for bar in found.plot.memory().data if bar.type == "bar"]) == 8
    users = found.plot.users()
    assert users.data[0].meta["panel"] == "TTFT p50, s"  # of the data; ticks bear units
    assert users.layout.annotations[0].text == "TTFT p50"


def test_a_comparison_saves_its_page(tmp_path: Path) -> None:
    found = small_comparison()
    assert found.save(tmp_path / "c") == tmp_path / "c"
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == [
        "comparison.json",
        "report.html",
    ]
    with pytest.raises(ValueError, match="c is there already, and nothing is written over it"):
        found.save(tmp_path / "c")
