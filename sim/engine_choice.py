"""Which engine runs: the leaper where its invariants hold, else the stepper, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.leaper import Leaper, leapable
from kvsim.sim.promise_leaper import PromiseLeaper

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.requests import Requests

LEAPERS: Final = {"mixed-running-first": Leaper, "no-evict": PromiseLeaper}
"""The leaper of each batching that has one."""


def can_leap(config: SchedulerConfig, requests: Requests) -> tuple[bool, str]:
    """Whether a run can be leapt, and the words that say so or name what forbids it."""
    if config.allocator != "paged":
        return False, f"{config.allocator} reservations are stepped through"
    if config.batching not in LEAPERS:
        return False, f"batching {config.batching} is stepped through"
    if config.preemption_mode != "recompute":
        return False, f"preemption by {config.preemption_mode} is stepped through"
    if config.victim not in ("by-queue", "last"):
        return False, f"victim {config.victim} is stepped through"
    able, reason = leapable(config)
    if able and requests.timeout_ps is not None:
        return False, "requests with a timeout"
    return able, reason
