"""Parts of the summary about memory: the pool, the host, and copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.documents.kv_memory import (
    CopyOnWrite,
    Host,
    Memory,
    MemoryHeld,
    PaperStates,
    Primitives,
    Relocations,
    States,
)
from kvsim.sim.metrics import shares as memory_shares
from kvsim.sim.metrics.shares import percentages, states
from kvsim.sim.recording.memory_integrals import HOST
from kvsim.traces.common.quantities import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvsim.sim.documents.kv_memory import Retention
    from kvsim.sim.pool.shape import PoolShape
    from kvsim.sim.recording.recorder import Recorder


def memory(recorder: Recorder, pool: PoolShape) -> Memory:
    """Return the sizes of the pool, and its shares over all time and while requests waited."""
    totals = {name: sum(values) for name, values in recorder.windows.items()}
    return Memory(
        pool_bytes=pool.pool_bytes,
        num_gpu_blocks=pool.num_blocks,
        block_size=pool.block_size,
        block_bytes=pool.block_bytes,
        all_time=_held(memory_shares.all_time(recorder, pool), totals, pool),
        while_waiting=_held(
            memory_shares.while_waiting(recorder, pool), recorder.while_waiting, pool
        ),
    )


def _held(parts: Mapping[str, int], integrals: Mapping[str, int], pool: PoolShape) -> MemoryHeld:
    """Return the shares that primitives and integrals over a stretch of time give."""
    window_ps = integrals["window"]
    mean_bytes = {
        part: value / (window_ps * pool.block_size) if window_ps else 0.0
        for part, value in parts.items()
    }
    return MemoryHeld(
        seconds=window_ps / PS_PER_S,
        states_percent=States(**percentages(states(parts))),
        sosp23_percent=PaperStates(**percentages(states(parts, "sosp23"))),
        primitives_percent=Primitives(**percentages(parts)),
        primitives_mean_bytes=Primitives(**mean_bytes),
        sharing=memory_shares.sharing(integrals, pool),
    )


def host(recorder: Recorder, pool: PoolShape) -> Host:
    """Return the host memory that swapped blocks took; it is not part of the pool."""
    window_ps, size = sum(recorder.windows["window"]), pool.block_bytes
    held = sum(recorder.windows[HOST]) * size
    return Host(
        swapped_out_bytes=recorder.swapped_out_blocks * size,
        swapped_in_bytes=recorder.swapped_in_blocks * size,
        copying_s=recorder.copying_ps / PS_PER_S,
        mean_bytes=held / window_ps if window_ps else 0.0,
        peak_bytes=recorder.peak_host_blocks * size,
        times_full=recorder.num_host_full,
    )


def relocations(recorder: Recorder, pool: PoolShape) -> Relocations | None:
    """Return how often memory of requests grew or moved; ``None`` when none can move."""
    counts = recorder.relocations
    if counts is None or recorder.retention is not None:
        return None
    return Relocations(
        grown_in_place=counts.num_grown,
        moved=counts.num_moved,
        moved_bytes=counts.moved_tokens * pool.block_bytes,
        preempted=counts.num_lacking,
        slid=counts.num_slid,
        slid_bytes=counts.slid_tokens * pool.block_bytes,
        copy_s=recorder.copy_ps / PS_PER_S,
    )


def copy_on_write(recorder: Recorder, pool: PoolShape) -> CopyOnWrite:
    """Return the shared blocks that were copied because one of their sequences wrote."""
    return CopyOnWrite(
        blocks=recorder.copied_on_write_blocks,
        bytes=recorder.copied_on_write_blocks * pool.block_bytes,
        copy_s=recorder.copy_on_write_ps / PS_PER_S,
    )


def retention(recorder: Recorder, pool: PoolShape) -> Retention | None:
    """Return what chosen retention dropped and kept; ``None`` without chosen retention."""
    if recorder.retention is None:
        return None
    return recorder.retention.summary(pool, recorder.relocations, recorder.copy_ps / PS_PER_S)
