"""Calls that copy KV blocks, one by one or as one piece: on the device, to the host and back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.calibrate.measure.buffers import Buffers
    from kvsim.calibrate.measure.timing import Workload


def copy_workload(buffers: Buffers, blocks: int, contiguous: int) -> Workload:
    """Copy blocks within the device; it reads and writes."""
    from kvsim.kernels.block_copy import copy_blocks

    call_bytes = 2 * blocks * buffers.block_bytes()
    count = buffers.count(call_bytes)
    if contiguous:
        pieces = [(buffers.cache(blocks), buffers.cache(blocks)) for _ in range(count)]
        whole = [partial(target.copy_, source) for source, target in pieces]
        return buffers.rotated(whole, call_bytes, capturable=True)
    cache = buffers.cache(2 * blocks * count)
    pairs = buffers.permutation(2 * blocks * count).long().view(count, blocks, 2)
    calls = [partial(copy_blocks, [cache], pair.to(buffers.device)) for pair in pairs]
    return buffers.rotated(calls, call_bytes, capturable=True)


def swap_workload(buffers: Buffers, blocks: int, contiguous: int, *, to_host: bool) -> Workload:
    """Copy blocks to the host, or back."""
    from kvsim.kernels.block_copy import host_cache, swap_blocks

    cache = buffers.cache(2 * blocks)
    host = host_cache(cache, 2 * blocks).copy_(cache)
    source, target = (cache, host) if to_host else (host, cache)
    if contiguous:
        call: Callable[[], object] = partial(
            target[:blocks].copy_, source[:blocks], non_blocking=True
        )
    else:
        chosen = buffers.permutation(2 * blocks).long().view(blocks, 2)
        call = partial(swap_blocks, [source], [target], chosen)
    return buffers.rotated([call], blocks * buffers.block_bytes())
