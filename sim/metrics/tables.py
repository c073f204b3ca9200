"""Tables of a run: one with a row for each request, one with a row for each time window.

``docs/metrics.md`` documents the columns. Frames and parquet files are made from the same arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsim.sim.metrics import shares as memory_shares
from kvsim.sim.metrics.phases import Windows
from kvsim.sim.metrics.request_columns import STATUS_NAMES, RequestColumns
from kvsim.sim.recording.memory_integrals import CONTIGUOUS, MEMORY
from kvsim.sim.recording.recorder import PREEMPTIONS, SWAPPED_IN, SWAPPED_OUT
from kvsim.sim.recording.step_parts import STEPS
from kvsim.traces.common.quantities import PS_PER_S
from kvsim.traces.common.text import storable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvsim.sim.pool.shape import PoolShape
    from kvsim.sim.recording.recorder import Recorder
    from kvsim.traces.trace.trace import Trace


def request_table(
    trace: Trace, recorder: Recorder, start: int = 0, stop: int | None = None
) -> dict[str, NDArray[np.float64] | NDArray[np.int64] | Sequence[str]]:
    """Return columns of the requests ``[start, stop)`` by name; times in seconds, nan = never."""
    columns = RequestColumns.of(trace, recorder).part(start, stop)
    rows = range(start, start + len(columns))
    predicted = np.asarray(recorder.predicted_tokens, dtype=np.float64)[start:stop]
    return {
        "request": storable([trace.request_id(row) for row in rows]),
        "user": storable([trace.user[row] if trace.user is not None else "" for row in rows]),
        "status": [STATUS_NAMES[code] for code in columns.status.tolist()],
        "arrival_s": columns.arrival_s(),
        "prompt_tokens": columns.prompt_tokens,
        "output_tokens": columns.output_tokens,
        "queue_s": columns.queue_s(),
        "ttft_s": columns.ttft_s(),
        "tpot_s": columns.tpot_s(),
        "e2e_s": columns.e2e_s(),
        "hit_tokens": columns.hit_tokens,
        "preemptions": columns.preemptions,
        "lost_tokens": columns.lost_tokens,
        "resume_hit_tokens": columns.resume_hit_tokens,
        "stall_s": columns.stall_ps / PS_PER_S,
        "predicted_tokens": np.where(predicted < 0, np.nan, predicted),
    }


def series_table(
    recorder: Recorder, pool: PoolShape
) -> dict[str, NDArray[np.float64] | NDArray[np.int64]]:
    """Return the columns of the time windows by name.

    The columns ``waiting_CAUSE`` are mean numbers of waiting requests. They add up to ``waiting``.
    The columns ``preempted_CAUSE`` count the preempted ones and add up to ``preempted``. Bytes are
    means, by state and on the host; ``swapped_out`` and ``swapped_in`` are sums. Seconds by part of
    the step (``weights_s``, ..., ``idle_s``) add up to ``seconds``. ``gaps`` counts the gaps
    between tokens that end in the window. Without gaps ``itl_p50_s``, ``itl_p99_s`` and
    ``itl_max_s`` are nan.
    """
    windows = Windows.of(recorder)
    table: dict[str, NDArray[np.float64] | NDArray[np.int64]] = {
        "start_s": windows.start_ps / PS_PER_S,
        "seconds": windows.covered_ps / PS_PER_S,
        "running": windows.running,
        "waiting": windows.waiting,
    }
    for cause, requests in windows.waiting_by_cause.items():
        table[cause_column("waiting", cause)] = requests
    table["preempted"] = np.sum([*windows.preempted_by_cause.values()], axis=0)
    for cause, requests in windows.preempted_by_cause.items():
        table[cause_column("preempted", cause)] = requests
    table["preemptions"] = _counts(recorder, PREEMPTIONS, windows)
    table["steps"] = _counts(recorder, STEPS, windows)
    for part, values_ps in recorder.parts_ps().items():
        values = np.array(values_ps[: len(windows.start_ps)])
        table[f"{part}_s"] = np.maximum(values, 0) / PS_PER_S
    rows = []
    for index, covered_ps in enumerate(windows.covered_ps.tolist()):
        totals = {name: recorder.windows[name][index] for name in (*MEMORY, *CONTIGUOUS)}
        parts = memory_shares.states(memory_shares.primitives(totals, 0, pool))
        scale = covered_ps * pool.block_size
        rows.append([value / scale if scale else 0.0 for value in parts.values()])
    means = np.array(rows).reshape(len(rows), len(memory_shares.STATES))
    for position, name in enumerate(memory_shares.STATES):
        table[f"{name}_bytes"] = means[:, position]
    table["host_bytes"] = windows.host_blocks * pool.block_bytes
    for column, name in (("swapped_out_bytes", SWAPPED_OUT), ("swapped_in_bytes", SWAPPED_IN)):
        table[column] = _counts(recorder, name, windows) * pool.block_bytes
    table["copying_share"] = windows.copying
    gaps = recorder.gaps.over_time(recorder.width_ps, len(windows.start_ps))
    table["gaps"] = gaps.num
    for percent in (50, 99):
        table[f"itl_p{percent}_s"] = gaps.quantiles_ps(percent / 100) / PS_PER_S
    table["itl_max_s"] = np.where(gaps.num, gaps.max_ps / PS_PER_S, np.nan)
    return table


def cause_column(who: str, cause: str) -> str:
    """Return the column of requests that wait for ``cause``; ``who``: waiting or preempted."""
    return f"{who}_{cause.replace(' ', '_')}"


def _counts(recorder: Recorder, name: str, windows: Windows) -> NDArray[np.int64]:
    return np.array(recorder.windows[name][: len(windows.start_ps)], dtype=np.int64)
