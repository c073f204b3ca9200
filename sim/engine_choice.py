"""Which engine runs: the leaper where its invariants hold, else the stepper, and why."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from kvsim.policies.allocators.reservation import RESERVATIONS
from kvsim.policies.eviction import AT_ADMISSIONS, EVICTION_KEYS
from kvsim.sim.leap_radix import RadixLeaper
from kvsim.sim.leap_reserved import ReservedLeaper
from kvsim.sim.leaper import Leaper, leapable

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.requests import Requests

LEAPERS: Final[dict[str, type[Leaper]]] = {"paged": Leaper, "contiguous": ReservedLeaper}
"""The leaper of each allocator that has one."""


def leaper_of(config: SchedulerConfig) -> type[Leaper]:
    """The leaper of a run that can be leapt."""
    return RadixLeaper if config.prefix == "radix" else LEAPERS[config.allocator]


def can_leap(config: SchedulerConfig, requests: Requests) -> tuple[bool, str]:
    """Whether a run can be leapt, and the words that say so or name what forbids it."""
    if config.allocator not in LEAPERS:
        return False, f"allocator {config.allocator} is stepped through"
    if config.allocator == "contiguous" and config.reservation not in RESERVATIONS.builtins:
        return False, f"reservation {config.reservation} is stepped through"
    if config.enable_prefix_caching and (why := _looks_at_steps(config)) is not None:
        return False, why
    able, reason = leapable(config)
    if able and requests.timeout_ps is not None:
        return False, "requests with a timeout"
    return able, reason


def _looks_at_steps(config: SchedulerConfig) -> str | None:
    """Why evictions depend on more than what a leap tells of, or ``None``."""
    order = config.eviction
    if config.prefix == "radix" and order not in EVICTION_KEYS:
        return f"eviction order {order} over a radix tree is stepped through"
    if config.prefix == "hash" and order not in AT_ADMISSIONS:
        return f"eviction order {order} may look at when a block came in"
    if config.eviction_capacity == math.inf:
        return "eviction.capacity = inf is stepped through"
    return None
