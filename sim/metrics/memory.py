"""What a run did to memory, as parts of the summary: the pool, the host, what was copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.metrics import shares as memory_shares
from kvsim.sim.recording.memory_integrals import HOST
from kvsim.traces.common.quantities import PS_PER_S

if TYPE_CHECKING:
    from kvsim.sim.pool.shape import PoolShape
    from kvsim.sim.recording.recorder import Recorder


def memory(recorder: Recorder, pool: PoolShape) -> dict[str, object]:
    """The pool's sizes, and shares of it over all time and while requests waited."""
    summary: dict[str, object] = {
        "pool_bytes": pool.pool_bytes,
        "num_gpu_blocks": pool.num_blocks,
        "block_size": pool.block_size,
        "block_bytes": pool.block_bytes,
    }
    totals = {name: sum(values) for name, values in recorder.windows.items()}
    for name, parts, integrals in (
        ("all_time", memory_shares.all_time(recorder, pool), totals),
        ("while_waiting", memory_shares.while_waiting(recorder, pool), recorder.while_waiting),
    ):
        window_ps = integrals["window"]
        grouped = memory_shares.states(parts)
        summary[name] = {
            "seconds": window_ps / PS_PER_S,
            "states_percent": memory_shares.percentages(grouped),
            "sosp23_percent": memory_shares.percentages(memory_shares.states(parts, "sosp23")),
            "primitives_percent": memory_shares.percentages(parts),
            "primitives_mean_bytes": {
                part: value / (window_ps * pool.block_size) if window_ps else 0.0
                for part, value in parts.items()
            },
            "sharing": memory_shares.sharing(integrals, pool),
        }
    return summary


def host(recorder: Recorder, pool: PoolShape) -> dict[str, object]:
    """Host memory that swapped blocks took; no part of the pool."""
    window_ps, size = sum(recorder.windows["window"]), pool.block_bytes
    held = sum(recorder.windows[HOST]) * size
    return {
        "swapped_out_bytes": recorder.swapped_out_blocks * size,
        "swapped_in_bytes": recorder.swapped_in_blocks * size,
        "copying_s": recorder.copying_ps / PS_PER_S,
        "mean_bytes": held / window_ps if window_ps else 0.0,
        "peak_bytes": recorder.peak_host_blocks * size,
        "times_full": recorder.num_host_full,
    }


def relocations(recorder: Recorder, pool: PoolShape) -> dict[str, object] | None:
    """What became of runs and packed blocks; ``None`` where none can move."""
    counts = recorder.relocations
    if counts is None or recorder.retention is not None:
        return None
    return {
        "grown_in_place": counts.num_grown,
        "moved": counts.num_moved,
        "moved_bytes": counts.moved_tokens * pool.block_bytes,
        "preempted": counts.num_lacking,
        "slid": counts.num_slid,
        "slid_bytes": counts.slid_tokens * pool.block_bytes,
        "copy_s": recorder.copy_ps / PS_PER_S,
    }


def copy_on_write(recorder: Recorder, pool: PoolShape) -> dict[str, object]:
    """Blocks that were shared until one of their sequences wrote."""
    return {
        "blocks": recorder.copied_on_write_blocks,
        "bytes": recorder.copied_on_write_blocks * pool.block_bytes,
        "copy_s": recorder.copy_on_write_ps / PS_PER_S,
    }


def retention(recorder: Recorder, pool: PoolShape) -> dict[str, object] | None:
    """What was dropped and kept; ``None`` where groups keep what the model attends to."""
    if recorder.retention is None:
        return None
    return recorder.retention.summary(pool, recorder.relocations, recorder.copy_ps / PS_PER_S)
