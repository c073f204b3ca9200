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
    memory = config.prefix if config.allocator == "paged" else config.allocator
    return _LEAPERS.get((memory, config.batching))


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
    if config.allocator not in {"paged", "contiguous"}:
        return f"allocator {config.allocator} is stepped through"
    if leaper_of(config) is None:
        return f"batching {config.batching} is stepped through"
    if config.preemption_mode != "recompute":
        return f"preemption by {config.preemption_mode} is stepped through"
    if config.victim not in {"by-queue", "last"}:
        return f"victim {config.victim} is stepped through"
    return _may_move(config) if config.allocator == "contiguous" else _may_look_in(config)


def _may_move(config: SchedulerConfig) -> str | None:
    """Why contiguous runs may not stay as they were placed, or ``None`` where they do."""
    name = config.reservation
    covers_all = getattr(RESERVATIONS.find(name), "covers_all", False)
    if name not in RESERVATIONS.builtins or not covers_all:
        return f"{name} reservations may be outgrown: stepped through"
    if config.compaction != "none":
        return f"compaction {config.compaction} is stepped through"
    return None


def _may_look_in(config: SchedulerConfig) -> str | None:
    """Why the cache may be looked at within a leap, or ``None`` where it is not."""
    if not config.enable_prefix_caching:
        return None
    order = config.eviction
    if config.prefix == "radix" and order not in EVICTION_KEYS:
        return f"eviction order {order} over a radix tree is stepped through"
    if config.prefix == "hash" and order not in AT_ADMISSIONS:
        return f"eviction order {order} may look at when a block came in"
    if config.eviction_capacity == math.inf:
        return "eviction.capacity = inf is stepped through"
    return None
