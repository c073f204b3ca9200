"""Which engine runs: the leaper where its invariants hold, else the stepper, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.allocators.reservation import RESERVATIONS
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
    able, reason = leapable(config)
    if able and requests.timeout_ps is not None:
        return False, "requests with a timeout"
    return able, reason
