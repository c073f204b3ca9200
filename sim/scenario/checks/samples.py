"""What several answers to one prompt cannot be combined with, each refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.common.counted import counted

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.traces.trace.trace import Trace

GROUP_BATCHINGS: Final = ("mixed-running-first", "iteration-level", "prefill-first")
_MOST_REQUESTS: Final = 10_000_000
"""Samples as requests: each takes some 300 bytes."""
_GROUPS: Final = "allocator.samples = 'group'"


def num_several(trace: Trace) -> int:
    """Requests of a trace that ask for more than one answer, or for beams."""
    columns = [column for column in (trace.num_samples, trace.beam_width) if column is not None]
    return int(np.count_nonzero(np.max(columns, axis=0) > 1)) if columns else 0


def check_samples(config: SchedulerConfig, trace: Trace, *, closed: bool) -> None:
    """Refuse a trace whose requests ask for several answers where nobody says what happens.

    ``closed``: some requests wait for the answers to others, or users take turns.

    Raises
    ------
    ValueError
        With what the trace asks for and the key that does not go with it.
    """
    several = num_several(trace)
    if not several:
        return
    what = counted(several, f"request of {trace.name} asks", f"requests of {trace.name} ask")
    what += " for several answers"
    samples, beams = trace.num_samples, trace.beam_width
    if samples is not None and beams is not None and ((samples > 1) & (beams > 1)).any():
        raise ValueError(
            f"{what}, some by both num_samples and beam_width: a request has samples or beams"
        )
    if config.allocator.samples == "group":
        _check_groups(config, what)
        return
    if beams is not None and (beams > 1).any():
        raise ValueError(
            f"{what}, some by beam_width > 1: allocator.samples = 'requests' has no beams (vLLM v1 "
            "searches them outside the engine), 'group' has"
        )
    if samples is not None and (number := int(samples.sum())) > _MOST_REQUESTS:
        raise ValueError(
            f"{what} (num_samples > 1), {number:,} in all: allocator.samples = 'requests' makes a "
            f"request of each, and takes at most {_MOST_REQUESTS:,}"
        )
    if closed:
        raise ValueError(
            f"{what} (num_samples > 1), and others wait for answers: whoever waits for several is "
            "not simulated where allocator.samples = 'requests'"
        )


def _check_groups(config: SchedulerConfig, what: str) -> None:
    """Refuse what sequence groups of several have no rule for."""
    if config.allocator.kind != "paged":
        raise ValueError(
            f"{what}: {_GROUPS} shares the blocks of allocator.kind = 'paged', not of "
            f"{config.allocator.kind!r}"
        )
    if config.enable_prefix_caching:
        raise ValueError(
            f"{what}: {_GROUPS} is not defined with a prefix cache: set "
            "engine.enable_prefix_caching = false"
        )
    if len(config.kv_groups) > 1 or config.kv_groups[0].sliding_window is not None:
        raise ValueError(
            f"{what}: {_GROUPS} is for full attention in all layers; this model has windows or "
            "several KV groups"
        )
    if config.async_scheduling:
        raise ValueError(
            f"{what}: {_GROUPS} is not defined with a step in flight: set "
            "engine.async_scheduling = false"
        )
    batching = config.batching
    by_ratio = batching.policy == "prefill-first" and batching.prefill_rule == "new-token-ratio"
    if batching.policy not in GROUP_BATCHINGS or by_ratio:
        rule = " with batching.prefill_rule = 'new-token-ratio'" if by_ratio else ""
        raise ValueError(
            f"{what}: batching.policy = {batching.policy!r}{rule} counts every request as one "
            f"sequence; {_GROUPS} goes with {', '.join(GROUP_BATCHINGS)} (by watermark)"
        )
    if batching.reserve_predicted_output:
        raise ValueError(
            f"{what}: batching.reserve_predicted_output counts every request as one sequence, "
            f"{_GROUPS} has several"
        )
    if config.preemption.mode not in {"swap", "swap-groups"}:
        raise ValueError(
            f"{what}: {_GROUPS} cannot compute sequences again that have parted: "
            f"preemption.mode = {config.preemption.mode!r} is not one of 'swap', 'swap-groups'"
        )
