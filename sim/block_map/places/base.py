"""Which allocators can be drawn, and who reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kvsim.policies.allocators import (
    ALLOCATORS,
    ContiguousAllocator,
    PagedAllocator,
    RadixAllocator,
)
from kvsim.sim.block_map.places.contiguous import ContiguousPlaces
from kvsim.sim.block_map.places.paged import PagedPlaces
from kvsim.sim.block_map.places.radix import RadixPlaces
from kvsim.sim.scenario.checks.samples import num_several

if TYPE_CHECKING:
    from kvsim.policies.allocators.base import Allocator
    from kvsim.policies.batching import SchedulerState
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.block_map.pieces import Pieces
    from kvsim.traces.trace.trace import Trace


class Places(Protocol):
    """Reads one allocator."""

    def pieces(self, state: SchedulerState) -> Pieces:
        """What lies where now."""
        ...

    def take_evicted(self) -> list[tuple[int, int]]:
        """Places and slots that lost cached content since the last call."""
        ...


def check_drawable(config: SchedulerConfig, trace: Trace) -> None:
    """Refuse what has no picture.

    Raises
    ------
    ValueError
        With what is missing and what to do.
    """
    allocator = config.allocator
    if allocator.kind not in ALLOCATORS.builtins:
        raise ValueError(
            f"--record blocks cannot draw allocator {allocator.kind!r}: it does not say where "
            f"things lie; built-in ones do ({', '.join(ALLOCATORS.builtins)})"
        )
    if allocator.samples == "group" and num_several(trace):
        raise ValueError(
            "--record blocks cannot draw sequence groups: set allocator.samples = 'requests', or "
            "take a trace whose requests ask for one output"
        )


def places_of(allocator: Allocator, config: SchedulerConfig) -> Places:
    """Reader of an allocator that passed :func:`check_drawable`."""
    if isinstance(allocator, ContiguousAllocator):
        return ContiguousPlaces(allocator)
    if isinstance(allocator, RadixAllocator):
        return RadixPlaces(allocator)
    assert isinstance(allocator, PagedAllocator), "the allocator was checked"
    return PagedPlaces(allocator, config.block_size)


def pool_words(config: SchedulerConfig) -> str:
    """The allocator in a few words, for a caption."""
    allocator = config.allocator
    if allocator.kind == "contiguous":
        return f"contiguous, reserves {allocator.reservation}, {allocator.placement}"
    size = f"{config.block_size}-token"
    if allocator.prefix == "radix":
        return f"radix tree, {size} pages"
    shares = "prefixes shared" if config.enable_prefix_caching else "no sharing"
    return f"paged, {size} blocks, {shares}"
