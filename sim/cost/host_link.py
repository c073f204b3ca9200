"""The link to host memory: copies x alpha + bytes / beta.

In vLLM v0 the KV of a block is in separate pieces for each layer, and K is apart from V. So a block
is ``layers x 2`` copies (``layers`` if K and V are one latent). If the engine stores a block in one
piece, it is a single copy. A copy has a fixed cost ``alpha``, whatever its size, so small pieces
never reach the link's rate ``beta``.

Neither is measured for any card here. ``beta`` is the card's datasheet rate in one direction.
``alpha`` is 6 us, in the middle of the measured 5-7 us to submit one ``cudaMemcpyAsync`` (DualPath,
arXiv 2602.21548, section 5.2). Ranks copy in parallel, each over a separate link. Both directions
of one step share the link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvsim.traces.common.quantities import PS_PER_S
from kvsim.traces.common.text import counted

ASSUMED_ALPHA_PS: Final = 6 * 10**6


@dataclass(frozen=True, slots=True)
class HostLink:
    """Cost of swapping on one rank; ``overlaps``: copies run in parallel to the step."""

    alpha_ps: int
    bytes_per_s: int
    block_bytes: int
    copies_per_block: int
    overlaps: bool = False

    def __str__(self) -> str:
        """Words for outputs."""
        copies = counted(self.copies_per_block, "copy", "copies")
        return (
            f"{copies} a block at {self.alpha_ps / 10**6:g} us, {self.bytes_per_s / 10**9:g} GB/s"
        )

    def copy_ps(self, num_blocks: int) -> int:
        """Picoseconds for ``num_blocks`` blocks in one direction, rounded up."""
        num_bytes = num_blocks * self.block_bytes
        moving_ps = -(-num_bytes * PS_PER_S // self.bytes_per_s)
        return num_blocks * self.copies_per_block * self.alpha_ps + moving_ps

    def step_ps(self, duration_ps: int, copying_ps: int) -> int:
        """Duration of a step of ``duration_ps`` with its copies."""
        if self.overlaps:
            return max(duration_ps, copying_ps)
        return duration_ps + copying_ps
