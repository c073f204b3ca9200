"""Block sizes on the requests of the PagedAttention paper's Figure 2, for the record.

The larger a block, the more of each request's last one stays empty. Only memory is looked at: every
step takes the same time, so nothing is said of kernels, which prefer larger blocks (the paper finds
16 to 64 best). Lengths: :mod:`kvsim.sim.comparison.presets.sosp23_lengths`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.comparison.presets.sosp23_fig2 import PAGED, SETTINGS
from kvsim.sim.comparison.presets.sosp23_lengths import saturated
from kvsim.sim.scenario.loader import load_scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.comparison.presets.base import Change, Published
    from kvsim.sim.comparison.row import Row
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.traces.trace.trace import Trace

BLOCK_SIZES: Final = (1, 8, 16, 32, 64, 128)
NUM_REQUESTS: Final = 6000


class Sosp23Blocks:
    """One column a block size."""

    name = "sosp23-blocks"
    summary = "block sizes 1 to 128 on the requests of sosp23-fig2"
    verified = "lengths are a fitted reconstruction (docs/validation.md)"

    def traces(self, seed: int) -> tuple[Trace, ...]:
        """One, of ``seed`` + 1."""
        return (saturated(NUM_REQUESTS, seed + 1),)

    def scenarios(self, change: Change) -> dict[str, Scenario]:
        """VLLM without prefix caching, by block size."""
        paged = change(load_scenario(PAGED).with_values(SETTINGS))
        return {
            f"block {size}": paged.with_values({"engine.block_size": size}) for size in BLOCK_SIZES
        }

    def published(self, rows: Sequence[Row]) -> Published | None:
        """Nothing: the paper shows latencies only."""
        del rows
        return None
