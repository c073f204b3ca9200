"""Table and JSON of a replayed run: theirs beside ours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kvsim.cli.text.colour import harmless
from kvsim.cli.text.table import table, wrapped
from kvsim.sim.documents.replay import ReplayDocument
from kvsim.traces.common.text import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.calibrate.engine_logs.measured_run import LoadSeries, MeasuredRun
    from kvsim.calibrate.validate.measured_replay import Replay
    from kvsim.sim.documents.replay import ReplayFigure


def print_table(
    measured: MeasuredRun,
    ours: Replay,
    rows: Sequence[ReplayFigure],
    notes: Sequence[str],
    beside: Sequence[str],
    page: str | None,
) -> None:
    """Print notes, figures of both, means under ``beside`` assumptions, counts, and the page."""
    for note in notes:
        label, _, text = note.partition(": ")
        print(harmless("\n".join(wrapped(label, text, first_width=14))))
    cells = [["", "theirs", "ours", "error"]]
    for row in rows:
        error = "-" if row.error is None else f"{100 * row.error:+.1f} %"
        theirs, found = seconds(row.theirs_s), seconds(row.ours_s)
        cells.append([f"{row.metric} {row.statistic}", theirs, found, error])
    if measured.series is not None:
        cells += _series_rows(measured.series, ours.series)
    print(harmless("\n".join(["", *table(cells), ""])))
    if beside:
        means = ["means with another overhead", *(f"  {line}" for line in beside), ""]
        print(harmless("\n".join(means)))
    counted = {
        "preemptions": ours.preemptions,
        "prompt tokens from the cache": ours.hit_tokens,
        "at resumes": ours.resume_hit_tokens,
        f"of {len(measured)} finished": ours.num_finished,
    }
    for label, counts in (("theirs", measured.counts), ("ours", counted)):
        text = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        text = text or "the log does not count preemptions and hits"
        print(harmless("\n".join(wrapped(label, text, first_width=14))))
    if page is not None:
        print("\n".join(["", *wrapped("page", f"{page}: open it in a browser", first_width=14)]))


def _series_rows(theirs: LoadSeries, ours: LoadSeries) -> list[list[str]]:
    """Means over the samples of the log, ours read at the same instants."""
    import numpy as np

    rows = []
    places = np.clip(np.searchsorted(ours.time_s, theirs.time_s) - 1, 0, len(ours.time_s) - 1)
    for name, unit in (("kv_percent", " %"), ("running", ""), ("waiting", "")):
        measured = getattr(theirs, name).mean()
        found = np.where(theirs.time_s <= ours.time_s[-1], getattr(ours, name)[places], 0.0).mean()
        error = f"{100 * (found / measured - 1):+.1f} %" if measured else "-"
        label = {"kv_percent": "KV blocks in use"}.get(name, name)
        rows.append([f"{label}, mean", f"{measured:.1f}{unit}", f"{found:.1f}{unit}", error])
    return rows


def print_json(
    measured: MeasuredRun, ours: Replay, rows: Sequence[ReplayFigure], notes: Sequence[str]
) -> None:
    """Print the same as JSON."""
    document = ReplayDocument(
        run=measured.name,
        notes=[*notes],
        figures=[*rows],
        preemptions=ours.preemptions,
        hit_tokens=ours.hit_tokens,
        resume_hit_tokens=ours.resume_hit_tokens,
    )
    print(json.dumps(document.to_dict(), indent=1))
