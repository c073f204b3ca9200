"""From a scenario to an engine: options, pool and step cost, with every default named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.cost import StepCost
    from kvsim.sim.memory_shares import PoolShape
    from kvsim.sim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """What an engine runs with.

    ``pool_terms`` are the lines of the pool's plan (name, bytes); ``notes`` are sentences that
    the user should see.
    """

    config: SchedulerConfig
    cost: StepCost
    pool: PoolShape
    pool_terms: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()


def set_up(scenario: Scenario) -> EngineSetup:
    """Engine setup of a scenario; ValueError where it cannot be built."""
    raise NotImplementedError
