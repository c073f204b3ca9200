"""How KV memory is allocated, and in what shape.

The contract is :mod:`~kvsim.policies.allocators.base`. The implementations are ``contiguous``,
``paged`` and ``radix``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.allocators.contiguous import ContiguousAllocator
from kvsim.policies.allocators.grouped import GroupedAllocator
from kvsim.policies.allocators.paged import PagedAllocator, block_order
from kvsim.policies.allocators.placement import make_placement
from kvsim.policies.allocators.radix import RadixAllocator
from kvsim.policies.allocators.reservation import RESERVATIONS
from kvsim.policies.guards.allocator import GuardedAllocator
from kvsim.policies.guards.guard import GuardedFactory
from kvsim.policies.registry import Registry, build

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.allocators.base import Allocator
    from kvsim.policies.context import PolicyContext


def _paged(context: PolicyContext) -> Allocator:
    """Block tables over equal blocks; prompts may share full blocks (vLLM)."""
    config = context.config
    if config.allocator.prefix == "radix":
        return RadixAllocator(context)
    kind = GroupedAllocator if config.allocator.samples == "group" else PagedAllocator
    return kind(config, block_order(context), seed=context.seed)


def _contiguous(context: PolicyContext) -> Allocator:
    """One run of token slots for each sequence; the reservation gives its length (Orca)."""
    config = context.config
    assert config.block_size == 1, "a contiguous pool is counted in slots"
    return ContiguousAllocator(
        build(RESERVATIONS.find(config.allocator.reservation), context),
        make_placement(config.allocator.placement, config.usable_blocks),
        config.max_model_len,
        compacts=config.allocator.compaction == "when-blocked",
    )


ALLOCATORS: Final[Registry[Callable[[PolicyContext], Allocator]]] = Registry(
    "allocator",
    {
        "paged": _paged,
        "contiguous": _contiguous,
    },
    guard=lambda name, found: GuardedFactory(name, found, GuardedAllocator),
)


def make_allocator(context: PolicyContext) -> Allocator:
    """Build the allocator that a run's options name.

    Built-in allocators may pass the true lengths to parts that declare ``uses_oracle``
    (reservations).
    """
    name = context.config.allocator.kind
    factory = ALLOCATORS.find(name)
    return factory(context) if name in ALLOCATORS.builtins else build(factory, context)


__all__ = [
    "ALLOCATORS",
    "ContiguousAllocator",
    "PagedAllocator",
    "RadixAllocator",
    "block_order",
    "make_allocator",
]
