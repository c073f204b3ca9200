"""Copies of KV blocks: on the device (copy-on-write), and to the host and back (swap).

A cache is ``[num_blocks, ...]`` with all of a block in one piece, one tensor a layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence


def copy_blocks(caches: Sequence[torch.Tensor], pairs: torch.Tensor) -> None:
    """Copy block ``pairs[i, 0]`` to ``pairs[i, 1]`` in every layer; int64, ``[n, 2]``, checked."""
    sources, targets = pairs[:, 0], pairs[:, 1]
    for cache in caches:
        cache[targets] = cache[sources]


def check_pairs(pairs: torch.Tensor) -> None:
    """Raise ``ValueError`` where a block is both read and written: the order would decide.

    Apart from the copy, as it waits for the device.
    """
    if torch.isin(pairs[:, 0], pairs[:, 1]).any():
        raise ValueError(f"a block is both source and target of a copy: {pairs.tolist()}")


def host_cache(cache: torch.Tensor, num_blocks: int) -> torch.Tensor:
    """Uninitialised host memory for ``num_blocks`` blocks of a layer, pinned where CUDA is."""
    return torch.empty(num_blocks, *cache.shape[1:], dtype=cache.dtype, pin_memory=cache.is_cuda)


def swap_blocks(
    sources: Sequence[torch.Tensor], targets: Sequence[torch.Tensor], pairs: torch.Tensor
) -> None:
    """Copy blocks between host and device, one contiguous copy a block and layer.

    ``pairs``: int64 on the host, ``[n, 2]``, block in the source and block in the target. Copies
    of pinned memory are asynchronous: synchronise the stream before the host reads.
    """
    for source, target in zip(sources, targets, strict=True):
        for before, after in pairs.tolist():
            target[after].copy_(source[before], non_blocking=True)
