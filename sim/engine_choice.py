"""Which engine runs: the leaper where its invariants hold, else the stepper, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.allocators.reservation import RESERVATIONS
from kvsim.sim.leap_reserved import ReservedLeaper
from kvsim.sim.leaper import Leaper, leapable

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.requests import Requests

LEAPERS: Final[dict[str, type[Leaper]]] = {"paged": Leaper, "contiguous": ReservedLeaper}
"""The leaper of each allocator that has one."""


def can_leap(config: SchedulerConfig, requests: Requests) -> tuple[bool, str]:
    """Whether a run can be leapt, and the words that say so or name what forbids it."""
    if config.allocator not in LEAPERS:
        return False, f"allocator {config.allocator} is stepped through"
    if config.allocator == "contiguous" and (why := _may_move(config)) is not None:
        return False, why
    able, reason = leapable(config)
    if able and requests.timeout_ps is not None:
        return False, "requests with a timeout"
    return able, reason


def _may_move(config: SchedulerConfig) -> str | None:
    """Why contiguous runs may not stay as they were placed, or ``None`` where they do."""
    name = config.reservation
    covers_all = getattr(RESERVATIONS.find(name), "covers_all", False)
    if name not in RESERVATIONS.builtins or not covers_all:
        return f"{name} reservations may be outgrown: stepped through"
    if config.compaction != "none":
        return f"compaction {config.compaction} is stepped through"
    return None
