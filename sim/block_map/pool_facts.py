"""Whose pool a block map shows, and how large it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kvsim.sim.block_map.cells import Grid
from kvsim.sim.block_map.places.base import pool_words
from kvsim.sim.block_map.record_options import MOST_CELLS

if TYPE_CHECKING:
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.sim.scenario.setup import EngineSetup
    from kvsim.traces.trace.trace import Trace


class Described(Protocol):
    """What is asked of a run, or of one that is yet to come."""

    @property
    def trace(self) -> Trace:
        """Its requests."""
        ...

    @property
    def scenario(self) -> Scenario:
        """Its scenario."""
        ...

    @property
    def setup(self) -> EngineSetup:
        """Its pool and rules."""
        ...


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """Names and sizes; ``remainder_bytes`` fit no block and are in no cell."""

    name: str
    trace: str
    allocator: str
    model: str
    hardware: str
    num_slots: int
    cell_slots: int
    block_size: int
    block_bytes: int
    remainder_bytes: int

    @property
    def grid(self) -> Grid:
        """Cells of the pool."""
        return Grid(self.num_slots, self.cell_slots)

    @staticmethod
    def of(run: Described, name: str, most_cells: int = MOST_CELLS) -> PoolFacts:
        """Facts of a run's pool, in at most so many cells."""
        config, shape = run.setup.config, run.setup.pool
        grid = Grid.of_pool(config, most_cells)
        return PoolFacts(
            name=name,
            trace=run.trace.name,
            allocator=pool_words(config),
            model=run.scenario.model.name,
            hardware=run.scenario.hardware.name,
            num_slots=grid.num_slots,
            cell_slots=grid.cell_slots,
            block_size=config.block_size,
            block_bytes=shape.block_bytes,
            remainder_bytes=shape.remainder_bytes,
        )
