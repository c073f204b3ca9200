"""Which engine runs: the leaper where its invariants hold, else the stepper, and why."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from kvsim.policies.allocators.reservation import RESERVATIONS
from kvsim.policies.eviction import AT_ADMISSIONS, EVICTION_KEYS
from kvsim.sim.leaping.leaper import Leaper, leapable
from kvsim.sim.leaping.no_evict import PromiseLeaper
from kvsim.sim.leaping.radix import RadixLeaper
from kvsim.sim.leaping.reserved import ReservedLeaper

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.engine.requests import Requests


_LEAPERS: Final[dict[tuple[str, str], type[Leaper]]] = {
    ("hash", "mixed-running-first"): Leaper,
    ("hash", "iteration-level"): Leaper,
    ("hash", "no-evict"): PromiseLeaper,
    ("radix", "mixed-running-first"): RadixLeaper,
    ("radix", "iteration-level"): RadixLeaper,
    ("contiguous", "mixed-running-first"): ReservedLeaper,
    ("contiguous", "iteration-level"): ReservedLeaper,
}
"""Leapers by memory (contiguous, or how prefixes of block tables are found) and batching."""


def leaper_of(config: SchedulerConfig) -> type[Leaper] | None:
    """The leaper of an allocator and a batching, if they have one."""
    allocator = config.allocator
    memory = allocator.index if allocator.kind == "paged" else allocator.kind
    return _LEAPERS.get((memory, config.batching.policy))


def can_leap(config: SchedulerConfig, requests: Requests) -> tuple[bool, str]:
    """Whether a run can be leapt, and the words that say so or name what forbids it."""
    if requests.has_groups:
        return False, "sequence groups are stepped through"
    if (why := _stepped_through(config)) is not None:
        return False, why
    able, reason = leapable(config)
    if able and requests.timeout_ps is not None:
        return False, "requests with a timeout"
    return able, reason


def _stepped_through(config: SchedulerConfig) -> str | None:
    """The policy that no leaper knows, or ``None``."""
    allocator, preemption = config.allocator.kind, config.preemption
    if allocator not in {"paged", "contiguous"}:
        return f"allocator {allocator} is stepped through"
    if leaper_of(config) is None:
        return f"batching {config.batching.policy} is stepped through"
    if preemption.mode != "recompute":
        return f"preemption by {preemption.mode} is stepped through"
    if preemption.victim not in {"by-queue", "last"}:
        return f"victim {preemption.victim} is stepped through"
    return _may_move(config) if allocator == "contiguous" else _may_look_in(config)


def _may_move(config: SchedulerConfig) -> str | None:
    """Why contiguous runs may not stay as they were placed, or ``None`` where they do."""
    name, compaction = config.allocator.reservation, config.allocator.compaction
    covers_all = getattr(RESERVATIONS.find(name), "covers_all", False)
    if name not in RESERVATIONS.builtins or not covers_all:
        return f"{name} reservations may be outgrown: stepped through"
    if compaction != "none":
        return f"compaction {compaction} is stepped through"
    return None


def _may_look_in(config: SchedulerConfig) -> str | None:
    """Why the cache may be looked at within a leap, or ``None`` where it is not."""
    if not config.enable_prefix_caching:
        return None
    order, index = config.eviction.policy, config.allocator.index
    if index == "radix" and order not in EVICTION_KEYS:
        return f"eviction order {order} over a radix tree is stepped through"
    if index == "hash" and order not in AT_ADMISSIONS:
        return f"eviction order {order} may look at when a block came in"
    if config.eviction.capacity == math.inf:
        return "eviction.capacity = inf is stepped through"
    return None
