"""A run as trace events: a file for https://ui.perfetto.dev, or for ``chrome://tracing``.

The format is Chrome's "Trace Event Format" (JSON object form): complete events (``X``) for what
requests go through, instants (``i``), counters (``C``) and names (``M``). Process 1 holds the
counters, process 2 a thread a request. Times are whole microseconds, and neighbours share their
edge, so slices never overlap: Perfetto cuts a fraction times 1,000 down to whole nanoseconds, which
may move one edge and not the other. Counters are means over the recorder's windows, at most
``recorder.MAX_WINDOWS`` of them. Same run, same bytes.
"""

from __future__ import annotations

import gzip
import io
import json
from typing import TYPE_CHECKING, Any, Final

from kvsim.sim.explain.timeline import QUEUED
from kvsim.sim.metrics.shares import STATES
from kvsim.sim.metrics.tables import series_table
from kvsim.traces.common.files import drafted
from kvsim.traces.common.quantities import PS_PER_S, PS_PER_US
from kvsim.traces.common.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kvsim.sim.explain.timeline import Slice, Timeline, Track
    from kvsim.sim.run.run import Run

SCHEMA: Final = "kvsim.perfetto/1"
_COUNTERS_PID: Final = 1
_REQUESTS_PID: Final = 2
_FIRST_TID: Final = _REQUESTS_PID + 1
"""A thread whose number is its process's would be shown as the main thread."""

Event = dict[str, Any]


def write_perfetto(run: Run, timeline: Timeline, path: Path) -> None:
    """Write the file under a temporary name, then rename it; gzip where it ends with ``.gz``.

    Raises
    ------
    OSError
        Where it cannot be written.
    """
    with drafted(path) as draft, draft.open("wb") as raw:
        if path.name.endswith(".gz"):  # no name and no time inside: same run, same bytes
            with gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
                _write(run, timeline, io.TextIOWrapper(packed, "utf-8", newline="\n"))
        else:
            _write(run, timeline, io.TextIOWrapper(raw, "utf-8", newline="\n"))


def drawn(run: Run, timeline: Timeline) -> str:
    """How many of how many requests have a track, in words."""
    num = len(timeline.trace) if timeline.trace is not None else len(run.trace)
    tracks = len(timeline.tracks)
    if tracks == num:
        return f"all {counted(num, 'request')}"
    return f"{tracks:,} of {counted(num, 'request')}, evenly over the trace"


def _write(run: Run, timeline: Timeline, file: io.TextIOWrapper) -> None:
    """Write the document event by event, one a line."""
    head = {
        "schema": SCHEMA,
        "trace": run.trace.name,
        "preset": run.scenario.preset or "own scenario",
        "model": run.scenario.model.name,
        "hardware": run.scenario.hardware.name,
        "engine": run.engine.engine,
        "requests": drawn(run, timeline),
        "counters": f"means over windows of {run.engine.recorder.width_ps / PS_PER_S:.3g} s",
    }
    file.write(f'{{"displayTimeUnit":"ms","otherData":{_text(head)},"traceEvents":[')
    separator = "\n"
    for event in _events(run, timeline):
        file.write(f"{separator}{_text(event)}")
        separator = ",\n"
    file.write("\n]}\n")
    file.flush()
    file.detach()


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _events(run: Run, timeline: Timeline) -> Iterator[Event]:
    yield from _process(_COUNTERS_PID, "KV pool and queue")
    yield from _counters(run)
    yield from _process(_REQUESTS_PID, f"requests: {drawn(run, timeline)}")
    for place, index in enumerate(sorted(timeline.tracks)):
        yield from _track(_FIRST_TID + place, timeline.tracks[index], timeline)


def _process(pid: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}


# ---- counters ------------------------------------------------------------------------------

_QUEUE: Final = ("running", "waiting", "preempted")
"""Columns of the series; those preempted wait, too."""


def _counters(run: Run) -> Iterator[Event]:
    """A value at the start of each window, and zeros at the end of the last."""
    recorder, pool = run.engine.recorder, run.setup.pool
    table = {name: values.tolist() for name, values in _numbers(run).items()}
    windows = recorder.windows
    for place, covered_ps in enumerate(windows["window"][: len(table["running"])]):
        if not covered_ps:
            continue
        ts = _us(place * recorder.width_ps)
        free = windows["blank"][place] + windows["cached"][place]
        yield _counter("KV blocks", ts, free=round(free / covered_ps / pool.block_size, 2))
        for name in _QUEUE:
            yield _counter(name, ts, requests=round(table[name][place], 3))
        states = {state: round(table[f"{state}_bytes"][place]) for state in STATES}
        yield _counter("KV memory (bytes)", ts, **states)
    for name in _QUEUE:
        yield _counter(name, _us(recorder.end_ps), requests=0)


def _numbers(run: Run) -> dict[str, Any]:
    return dict(series_table(run.engine.recorder, run.setup.pool))


def _counter(name: str, ts: int, **values: float) -> Event:
    """One moment of a counter; Perfetto calls it by its name and that of the value."""
    return {"ph": "C", "pid": _COUNTERS_PID, "ts": ts, "name": name, "args": values}


# ---- requests ------------------------------------------------------------------------------


def _track(tid: int, track: Track, timeline: Timeline) -> Iterator[Event]:
    """Name, slices and moments of a request, in order of time within each."""
    assert timeline.trace is not None, "a timeline has seen a run"
    place = {"pid": _REQUESTS_PID, "tid": tid}
    name = timeline.trace.request_id(track.index)
    yield {"ph": "M", **place, "name": "thread_name", "args": {"name": name}}
    yield {"ph": "M", **place, "name": "thread_sort_index", "args": {"sort_index": tid}}
    for one in track.slices:
        start, end = _us(one.start_ps), _us(one.end_ps)
        if end > start:
            times = {"ts": start, "dur": end - start}
            yield {"ph": "X", **place, **times, "name": _name(one), "args": _arguments(one)}
    for moment in track.moments:
        at = {"ts": _us(moment.at_ps), "s": "t"}
        yield {"ph": "i", **place, **at, "name": moment.name, "args": moment.details}


def _name(one: Slice) -> str:
    """Kind of a slice; of a queued one also what it waited for most."""
    if one.kind != QUEUED or not one.details:
        return one.kind
    waits = {name: ps for name, ps in one.details.items() if not name.endswith("_tokens")}
    return f"queued: {max(waits, key=lambda cause: waits[cause])}" if waits else one.kind


def _arguments(one: Slice) -> dict[str, float]:
    """Tokens as they are; times by cause in microseconds."""
    return {
        name if "tokens" in name or name == "computed_before" else f"waited for {name} (us)": value
        if "tokens" in name or name == "computed_before"
        else value / PS_PER_US
        for name, value in one.details.items()
    }


def _us(ps: int) -> int:
    return ps // PS_PER_US
