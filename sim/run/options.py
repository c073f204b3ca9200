"""Arguments of ``simulate`` and ``compare``: wrong kinds are told before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.sim.scenario.scenario import Scenario
from kvsim.traces.common.arguments import (
    check_call,
    check_flags,
    check_kind,
    check_text,
    check_whole,
    wrong,
)
from kvsim.traces.trace.columns import check_trace

if TYPE_CHECKING:
    from collections.abc import Iterable

_PROGRESS = "(requests ended, requests in all)"


def check_run_arguments(
    *,
    step: object,
    audit: object,
    closed: object,
    seed: object,
    assume_max_tokens: object,
    think_time: object,
    num_users: object,
    timeout: object,
    on_progress: object,
) -> None:
    """Raise ``ValueError`` for what no run can mean; what texts and numbers say is not read."""
    check_flags(step=step, audit=audit, closed=closed)
    check_whole("seed", seed, 0)
    check_text("assume_max_tokens", assume_max_tokens, "model")
    if think_time is not None:
        check_text("think_time", think_time, "5s")
    if timeout is not None:
        check_text("timeout", timeout, "30s")
    if num_users is not None:
        check_whole("num_users", num_users, more=", or None")
    check_call("on_progress", on_progress, _PROGRESS)


def check_watchers(listener: object, observers: object) -> None:
    """Raise ``ValueError`` for what cannot watch a run."""
    from kvsim.sim.engine.listener import ScheduleListener  # noqa: PLC0415
    from kvsim.sim.engine.observer import Observer  # noqa: PLC0415 - only who observes pays for it

    check_kind("listener", listener, ScheduleListener | None, "a ScheduleListener, or None")
    check_kind("observers", observers, list | tuple, "a list of Observers")
    for one in _members(observers):
        check_kind("observers", one, Observer, "a list of Observers")


def check_compared(traces: Iterable[object], scenarios: object, notes: object) -> None:
    """Raise ``ValueError`` for what cannot be compared."""
    for trace in traces:
        check_trace(trace)
    what = "scenarios by name, such as {'mine': Scenario.load('vllm-0.32')}"
    if not isinstance(scenarios, Mapping):
        raise wrong("scenarios", scenarios, what)
    for name, scenario in scenarios.items():
        check_kind("a name of scenarios", name, str, "text")
        check_kind(f"scenarios[{name!r}]", scenario, Scenario, "a Scenario")
    check_kind("notes", notes, list | tuple, "a list of texts")
    for note in _members(notes):
        check_kind("notes", note, str, "a list of texts")


def check_recorded(record: object, blocks: object, watch: object) -> None:
    """Raise ``ValueError`` for what cannot be recorded or watched."""
    from kvsim.sim.block_map import RecordOptions  # noqa: PLC0415 - only who records pays for it

    check_kind("record", record, RecordOptions | None, "RecordOptions, or None")
    check_kind("blocks", blocks, Path | None, "the Path of a folder, or None")
    check_call("watch", watch, "(live pools, ps)")


def _members(values: object) -> Iterable[object]:
    assert isinstance(values, list | tuple), "checked before"
    return values
