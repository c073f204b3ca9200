"""What happens to a victim's KV: freed and computed again, or copied to host memory.

``recompute``  blocks are freed; the sequence waits again and computes all but its hit (vLLM v1)
``swap``       blocks are copied to the host while it has room, and copied back before any new
               request is admitted; else recompute (vLLM v0, where a full host ends the engine)
``swap-groups``  swap for sequence groups of several, recompute for single sequences (the default
               of vLLM v0; sequences of a group that differ cannot be recomputed)
``auto``       the cheaper of the two by the run's cost model: :mod:`kvsim.policies.preemption.auto`

A block that other sequences hold too is *copied*, not pinned. The victim drops its reference, keeps
a copy on the host and gets new blocks at swap-in. So the blocks that it shared are duplicates
afterwards. Blocks that the sequences of one group share are copied once, and are shared again
after swap-in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kvsim.policies.preemption.host_pool import HostPool

if TYPE_CHECKING:
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence


class Judgement(NamedTuple):
    """A choice checked when its victim returned: what was chosen, and whether it was right."""

    swapped: bool
    right: bool


class PreemptionMode(Protocol):
    """Swap or recompute, for one engine.

    ``num_host_full`` counts victims for which the host had no room.
    """

    host: HostPool
    num_host_full: int

    def swaps(self, sequence: Sequence, num_blocks: int) -> bool:
        """Whether a victim is swapped out; it still holds its ``num_blocks`` blocks."""
        ...

    def returned(self, sequence: Sequence, hit_tokens: int) -> Judgement | None:
        """Note that a victim runs again; ``hit_tokens``: what the prefix cache holds of it now."""
        ...


class Recompute:
    """Every victim is recomputed."""

    def __init__(self) -> None:
        self.host = HostPool(0)
        self.num_host_full = 0

    def swaps(self, _sequence: Sequence, _num_blocks: int) -> bool:
        """Never."""
        return False

    def returned(self, _sequence: Sequence, _hit_tokens: int) -> Judgement | None:
        """Return None: there was no choice."""
        return None


class Swap:
    """Every victim is swapped out while the host has room."""

    def __init__(self, context: PolicyContext) -> None:
        self.host = HostPool(context.config.num_host_blocks)
        self.num_host_full = 0

    def swaps(self, _sequence: Sequence, num_blocks: int) -> bool:
        """Whether the host has room for all blocks of the sequence."""
        fits = self.host.fits(num_blocks)
        self.num_host_full += not fits
        return fits

    def returned(self, _sequence: Sequence, _hit_tokens: int) -> Judgement | None:
        """Return None: there was no choice."""
        return None


class SwapGroups(Swap):
    """Groups of several are swapped out, single sequences are recomputed."""

    def swaps(self, sequence: Sequence, num_blocks: int) -> bool:
        """Whether the sequence is a group and the host has room for it."""
        return sequence.width > 1 and super().swaps(sequence, num_blocks)
