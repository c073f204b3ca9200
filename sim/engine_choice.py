"""Which engine runs: the leaper where its invariants hold, else the stepper, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.leaper import leapable

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.requests import Requests


def can_leap(config: SchedulerConfig, requests: Requests) -> tuple[bool, str]:
    """Whether a run can be leapt, and the words that say so or name what forbids it."""
    if config.allocator != "paged":
        return False, f"{config.allocator} reservations are stepped through"
    if config.prefix == "radix":
        return False, "a radix tree, which every look-up refreshes, is stepped through"
    if config.batching != "mixed-running-first":
        return False, f"batching {config.batching} is stepped through"
    able, reason = leapable(config)
    if able and requests.timeout_ps is not None:
        return False, "requests with a timeout"
    return able, reason
