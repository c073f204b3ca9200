"""Who owns KV memory and in what shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.allocators.contiguous import ContiguousAllocator
from kvsim.policies.allocators.paged import PagedAllocator
from kvsim.policies.allocators.placement import make_placement
from kvsim.policies.allocators.reservation import make_reservation

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.allocators.base import Allocator, LengthTruth
    from kvsim.policies.scheduler_config import SchedulerConfig


def _paged(config: SchedulerConfig, _truth: LengthTruth) -> Allocator:
    return PagedAllocator(config)


def _contiguous(config: SchedulerConfig, truth: LengthTruth) -> Allocator:
    assert config.block_size == 1, "a contiguous pool is counted in slots"
    return ContiguousAllocator(
        make_reservation(config.reservation, config.max_model_len, truth),
        make_placement(config.placement, config.usable_blocks),
    )


ALLOCATORS: Final[dict[str, Callable[[SchedulerConfig, LengthTruth], Allocator]]] = {
    "paged": _paged,
    "contiguous": _contiguous,
}


def make_allocator(config: SchedulerConfig, truth: LengthTruth) -> Allocator:
    """Build the allocator that a configuration names; an unknown name lists the choices.

    ``truth`` goes only to what declares ``uses_oracle``.
    """
    name = config.allocator
    if name not in ALLOCATORS:
        msg = f"allocator {name!r} is unknown; choose one of {', '.join(sorted(ALLOCATORS))}"
        raise ValueError(msg)
    return ALLOCATORS[name](config, truth)


__all__ = ["ALLOCATORS", "ContiguousAllocator", "PagedAllocator", "make_allocator"]
