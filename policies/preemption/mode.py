"""What becomes of a victim's KV: thrown away and computed again, or kept in host memory.

``recompute``  blocks are given up; the sequence waits again and computes all but its hit (vLLM v1)
``swap``       blocks are copied to the host as long as it has room, and back before anybody new
               enters; else recompute (vLLM v0, where a full host ends the engine)
``auto``       the cheaper of the two by the run's cost model: :mod:`kvsim.policies.preemption.auto`

A block that others hold too is *copied*, not pinned: the victim gives its reference up, takes its
own copy along and comes back with blocks of its own. So what it shared is a duplicate afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kvsim.policies.preemption.host_pool import HostPool

if TYPE_CHECKING:
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence


class Judgement(NamedTuple):
    """A choice looked at when its victim came back: what it was, and whether it was right."""

    swapped: bool
    right: bool


class PreemptionMode(Protocol):
    """Decides for one engine; ``num_host_full`` counts victims that the host had no room for."""

    host: HostPool
    num_host_full: int

    def swaps(self, sequence: Sequence, num_blocks: int) -> bool:
        """Whether a victim that holds ``num_blocks`` goes to the host; it still holds them."""
        ...

    def returned(self, sequence: Sequence, hit_tokens: int) -> Judgement | None:
        """A victim runs again; ``hit_tokens``: what the prefix cache holds of it now."""
        ...


class Recompute:
    """Nothing goes to the host."""

    def __init__(self) -> None:
        self.host = HostPool(0)
        self.num_host_full = 0

    def swaps(self, _sequence: Sequence, _num_blocks: int) -> bool:
        """Never."""
        return False

    def returned(self, _sequence: Sequence, _hit_tokens: int) -> Judgement | None:
        """Nothing was weighed."""
        return None


class Swap:
    """Everything goes to the host that has room there."""

    def __init__(self, context: PolicyContext) -> None:
        self.host = HostPool(context.config.num_host_blocks)
        self.num_host_full = 0

    def swaps(self, _sequence: Sequence, num_blocks: int) -> bool:
        """Whether there is room; all of a sequence goes or nothing."""
        fits = self.host.fits(num_blocks)
        self.num_host_full += not fits
        return fits

    def returned(self, _sequence: Sequence, _hit_tokens: int) -> Judgement | None:
        """Nothing was weighed."""
        return None
