"""What happens: models, hardware, cost, engines, driver, metrics.

    from kvsim.sim import Scenario, compare, simulate

The names are found on first use, so importing the package costs nothing. The rooms from the ground
floor up are in ``tests/test_floors.py``; the main loop is ``engine/driver.py``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvsim.sim.comparison.comparison import Comparison, compare
    from kvsim.sim.comparison.scenarios import allocator_scenarios
    from kvsim.sim.run.run import Run, simulate
    from kvsim.sim.scenario.scenario import Scenario

__all__ = ["Comparison", "Run", "Scenario", "allocator_scenarios", "compare", "simulate"]

_HOMES = {
    "Comparison": "kvsim.sim.comparison.comparison",
    "Run": "kvsim.sim.run.run",
    "Scenario": "kvsim.sim.scenario.scenario",
    "allocator_scenarios": "kvsim.sim.comparison.scenarios",
    "compare": "kvsim.sim.comparison.comparison",
    "simulate": "kvsim.sim.run.run",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
