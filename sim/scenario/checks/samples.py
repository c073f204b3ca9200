"""What a trace asks for that a scenario has no rule for: users, and several answers to a prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.policies.queue_order import Fair
from kvsim.sim.scenario.checks.batching import cuts_by_ratio
from kvsim.sim.scenario.checks.check import Check, has_windows
from kvsim.traces.common.text import counted

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.traces.trace.trace import Trace

GROUP_BATCHINGS: Final = ("mixed-running-first", "iteration-level", "prefill-first")
_MOST_REQUESTS: Final = 10_000_000
"""Samples as requests: each takes some 300 bytes."""
_GROUPS: Final = "allocator.samples = 'group'"
_RATIO_RULE: Final = " with batching.prefill_rule = 'new-token-ratio'"


@dataclass(frozen=True, slots=True)
class Replayed:
    """A trace that is to be replayed with options of the scheduler.

    ``closed``: some requests wait for the answers to others, or users take turns.
    """

    trace: Trace
    config: SchedulerConfig
    closed: bool


def num_several(trace: Trace) -> int:
    """Requests of a trace that ask for more than one answer, or for beams."""
    columns = [column for column in (trace.num_samples, trace.beam_width) if column is not None]
    return int(np.count_nonzero(np.max(columns, axis=0) > 1)) if columns else 0


def _what(replayed: Replayed) -> str:
    trace, several = replayed.trace, num_several(replayed.trace)
    what = counted(several, f"request of {trace.name} asks", f"requests of {trace.name} ask")
    return what + " for several outputs"


def _as_requests(scenario: Scenario, replayed: Replayed) -> bool:
    return scenario.allocator.samples != "group" and num_several(replayed.trace) > 0


def _as_groups(scenario: Scenario, replayed: Replayed) -> bool:
    return scenario.allocator.samples == "group" and num_several(replayed.trace) > 0


def _both(trace: Trace) -> bool:
    samples, beams = trace.num_samples, trace.beam_width
    if samples is None or beams is None:
        return False
    return bool(((samples > 1) & (beams > 1)).any())


def _num_samples(trace: Trace) -> int:
    return 0 if trace.num_samples is None else int(trace.num_samples.sum())


TRACE: Final[tuple[Check[Scenario, Replayed], ...]] = (
    Check(
        "queue",
        lambda s, r: (
            s.queue.policy == Fair.name
            and not any(r.trace.user or ())
            and not any(r.trace.session or ())
        ),
        lambda _, r: (
            f"queue.policy = {Fair.name!r} shares among the users of a trace, or else its "
            f"sessions: {r.trace.name} names neither; choose another order"
        ),
    ),
    Check(
        "",
        lambda _, r: _both(r.trace),
        lambda _, r: (
            f"{_what(r)}, some by both num_samples and beam_width: a request has samples or beams"
        ),
    ),
    Check(
        "allocator",
        lambda s, r: (
            _as_requests(s, r)
            and r.trace.beam_width is not None
            and bool((r.trace.beam_width > 1).any())
        ),
        lambda _, r: (
            f"{_what(r)}, some by beam_width > 1: allocator.samples = 'requests' has no beams "
            "(vLLM v1 searches them outside the engine), 'group' has"
        ),
    ),
    Check(
        "allocator",
        lambda s, r: _as_requests(s, r) and _num_samples(r.trace) > _MOST_REQUESTS,
        lambda _, r: (
            f"{_what(r)} (num_samples > 1), {_num_samples(r.trace):,} in all: allocator.samples = "
            f"'requests' makes a request of each, and takes at most {_MOST_REQUESTS:,}"
        ),
    ),
    Check(
        "allocator",
        lambda s, r: _as_requests(s, r) and r.closed,
        lambda _, r: (
            f"{_what(r)} (num_samples > 1), and others wait for outputs: whoever waits for several "
            "is not simulated where allocator.samples = 'requests'"
        ),
    ),
    Check(
        "allocator",
        lambda s, r: _as_groups(s, r) and s.allocator.kind != "paged",
        lambda s, r: (
            f"{_what(r)}: {_GROUPS} shares the blocks of allocator.kind = 'paged', not of "
            f"{s.allocator.kind!r}"
        ),
    ),
    Check(
        "allocator engine",
        lambda s, r: _as_groups(s, r) and r.config.enable_prefix_caching,
        lambda _, r: (
            f"{_what(r)}: {_GROUPS} is not defined with a prefix cache: set "
            "engine.enable_prefix_caching = false"
        ),
    ),
    Check(
        "allocator",
        lambda s, r: _as_groups(s, r) and has_windows(r.config),
        lambda _, r: (
            f"{_what(r)}: {_GROUPS} is for full attention in all layers; this model has windows or "
            "several KV groups"
        ),
    ),
    Check(
        "allocator engine",
        lambda s, r: _as_groups(s, r) and r.config.async_scheduling,
        lambda _, r: (
            f"{_what(r)}: {_GROUPS} is not defined with a step in flight: set "
            "engine.async_scheduling = false"
        ),
    ),
    Check(
        "allocator batching",
        lambda s, r: (
            _as_groups(s, r) and (s.batching.policy not in GROUP_BATCHINGS or cuts_by_ratio(s))
        ),
        lambda s, r: (
            f"{_what(r)}: batching.policy = {s.batching.policy!r}"
            f"{_RATIO_RULE if cuts_by_ratio(s) else ''} counts every request as one sequence; "
            f"{_GROUPS} goes with {', '.join(GROUP_BATCHINGS)} (by watermark)"
        ),
    ),
    Check(
        "allocator batching",
        lambda s, r: _as_groups(s, r) and s.batching.reserve_predicted_output,
        lambda _, r: (
            f"{_what(r)}: batching.reserve_predicted_output counts every request as one sequence, "
            f"{_GROUPS} has several"
        ),
    ),
    Check(
        "allocator preemption",
        lambda s, r: _as_groups(s, r) and s.preemption.mode not in {"swap", "swap-groups"},
        lambda s, r: (
            f"{_what(r)}: {_GROUPS} cannot compute sequences again that have parted: "
            f"preemption.mode = {s.preemption.mode!r} is not one of 'swap', 'swap-groups'"
        ),
    ),
)
"""What no run can replay, in the order in which it is told."""
