"""Summary of a run; every number is defined in ``docs/metrics.md``.

Percentiles and goodput are over finished requests, with refused and unfinished ones counted
beside them. Undefined numbers are ``None``, never nan.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim import memory_shares
from kvsim.sim.memory_integrals import HOST
from kvsim.sim.phases import Phases, Windows, summarise
from kvsim.sim.prediction import prediction_quality
from kvsim.sim.queue_clock import CAUSES
from kvsim.sim.recorder import ABORTED, FINISHED, NOT_SENT, REFUSALS_KEPT, REFUSED, UNFINISHED
from kvsim.sim.request_columns import PS_PER_S, RequestColumns
from kvsim.sim.users import summarise_users
from kvsim.sim.verdict import judge
from kvsim.sim.waiting import summarise_waiting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.sim.memory_shares import PoolShape
    from kvsim.sim.recorder import Recorder
    from kvsim.sim.scenario_tables import Slo
    from kvsim.traces.trace import Trace

SCHEMA: Final = "kvsim.summary/1"

Summary = dict[str, object]


def summarise_run(
    trace: Trace,
    recorder: Recorder,
    pool: PoolShape,
    slo: Slo,
    *,
    cost_source: str,
    predictor: str = "none",
) -> Summary:
    """All metrics as nested dicts of plain numbers, ready for JSON; O(n log^2 n)."""
    columns = RequestColumns.of(trace, recorder)
    windows = Windows.of(recorder)
    phases = Phases.of(columns, recorder, windows)
    span_ps = phases.end_ps - phases.first_arrival_ps
    return {
        "schema": SCHEMA,
        "requests": _requests(trace, columns, recorder),
        "window": _window(phases, recorder),
        "phases": summarise(phases, columns, windows),
        "verdict": asdict(judge(columns, recorder, phases, windows)),
        "latency": _latency(columns, recorder),
        "throughput": _throughput(columns, span_ps),
        "goodput": _goodput(columns, slo, span_ps),
        "memory": _memory(recorder, pool),
        "cache": _cache(columns, recorder),
        "preemptions": _preemptions(columns, recorder),
        "host": _host(recorder, pool),
        "relocations": _relocations(recorder, pool),
        "copy_on_write": _copy_on_write(recorder, pool),
        "retention": _retention(recorder, pool),
        "stalls": _stalls(columns, recorder),
        "queue": summarise_waiting(columns, phases.end_ps),
        "users": summarise_users(trace, columns, _statistics),
        "prediction": prediction_quality(recorder, predictor),
        "waited_s": {cause: recorder.waited_ps[cause] / PS_PER_S for cause in CAUSES},
        "cost": _cost(recorder, cost_source),
    }


def _requests(trace: Trace, columns: RequestColumns, recorder: Recorder) -> Summary:
    refused = np.flatnonzero(columns.status == REFUSED)
    return {
        "total": len(columns),
        "finished": int((columns.status == FINISHED).sum()),
        "refused": len(refused),
        "unfinished": int((columns.status == UNFINISHED).sum()),
        "aborted": int((columns.status == ABORTED).sum()),
        "not_sent": int((columns.status == NOT_SENT).sum()),
        "refused_ids": [trace.request_id(int(index)) for index in refused[:REFUSALS_KEPT]],
        "refused_reasons": {
            trace.request_id(index): recorder.refusals[index] for index in sorted(recorder.refusals)
        },
    }


def _window(phases: Phases, recorder: Recorder) -> Summary:
    return {
        "seconds": (phases.end_ps - phases.first_arrival_ps) / PS_PER_S,
        "first_arrival_s": phases.first_arrival_ps / PS_PER_S,
        "last_arrival_s": phases.last_arrival_ps / PS_PER_S,
        "end_s": phases.end_ps / PS_PER_S,
        "peak_running": recorder.peak_running,
    }


def _latency(columns: RequestColumns, recorder: Recorder) -> Summary:
    finished = columns.finished()
    return {
        "queue_s": _statistics(columns.queue_s()[finished]),
        "ttft_s": _statistics(columns.ttft_s()[finished]),
        "tpot_s": _statistics(columns.tpot_s()[finished]),
        "itl_s": _gap_statistics(recorder),
        "e2e_s": _statistics(columns.e2e_s()[finished]),
        "normalised_s_per_token": _statistics(columns.normalised_s()[finished]),
    }


def _statistics(values: NDArray[np.float64]) -> Summary:
    defined = values[~np.isnan(values)]
    if not len(defined):
        return {"num": 0, "mean": None, "p50": None, "p90": None, "p99": None, "max": None}
    p50, p90, p99 = (float(value) for value in np.percentile(defined, (50, 90, 99)))
    return {
        "num": len(defined),
        "mean": float(defined.mean()),
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "max": float(defined.max()),
    }


def _gap_statistics(recorder: Recorder) -> Summary:
    gaps = recorder.gaps
    if not gaps.num:
        return _statistics(np.empty(0))
    p50, p90, p99 = (gaps.quantile_ps(q) / PS_PER_S for q in (0.5, 0.9, 0.99))
    return {
        "num": gaps.num,
        "mean": gaps.mean_ps() / PS_PER_S,
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "max": gaps.max_ps / PS_PER_S,
    }


def _throughput(columns: RequestColumns, span_ps: int) -> Summary:
    finished = columns.finished()
    output_tokens = int(columns.generated_tokens().sum())
    prompt_tokens = columns.prompt_tokens * columns.num_prompts
    total_tokens = output_tokens + int(prompt_tokens[finished].sum())
    return {
        "requests_per_s": _rate(int(finished.sum()), span_ps),
        "sustained_requests_per_s": sustained_rate(columns.finish_ps[finished]),
        "output_tokens_per_s": _rate(output_tokens, span_ps),
        "total_tokens_per_s": _rate(total_tokens, span_ps),
        "output_tokens": output_tokens,
        "total_tokens": total_tokens,
    }


def sustained_rate(finish_ps: NDArray[np.int64]) -> float | None:
    """Requests a second in the middle eight tenths of all that finished: no ramp-up, no drain."""
    ends = np.sort(finish_ps)
    edge = len(ends) // 10
    if edge == 0:
        return None
    first_ps, last_ps = int(ends[edge]), int(ends[-1 - edge])
    return _rate(len(ends) - 1 - 2 * edge, last_ps - first_ps)


def _goodput(columns: RequestColumns, slo: Slo, span_ps: int) -> Summary | None:
    if not slo:
        return None
    finished = columns.finished()
    ttft_ps = columns.first_token_ps - columns.arrival_ps
    decode_ps = columns.finish_ps - columns.first_token_ps
    good = finished.copy()
    if slo.ttft_ps is not None:
        good &= ttft_ps <= slo.ttft_ps
    if slo.tpot_ps is not None:
        good &= decode_ps <= slo.tpot_ps * (columns.output_tokens - 1)
    if slo.e2e_ps is not None:
        good &= columns.finish_ps - columns.arrival_ps <= slo.e2e_ps
    num_good, num_finished = int(good.sum()), int(finished.sum())
    limits = {"ttft_s": slo.ttft_ps, "tpot_s": slo.tpot_ps, "e2e_s": slo.e2e_ps}
    return {
        "slo": {name: ps / PS_PER_S for name, ps in limits.items() if ps is not None},
        "requests": num_good,
        "requests_per_s": _rate(num_good, span_ps),
        "percent_of_finished": 100 * num_good / num_finished if num_finished else None,
    }


def _memory(recorder: Recorder, pool: PoolShape) -> Summary:
    summary: Summary = {
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


def _cache(columns: RequestColumns, recorder: Recorder) -> Summary:
    prompt_tokens = int((columns.prompt_tokens * columns.num_prompts).sum())
    hit_tokens = int(columns.hit_tokens.sum())
    return {
        "prompt_tokens": prompt_tokens,
        "hit_tokens": hit_tokens,
        "hit_percent": 100 * hit_tokens / prompt_tokens if prompt_tokens else None,
        "evicted_blocks": recorder.num_evicted_blocks,
    }


def _preemptions(columns: RequestColumns, recorder: Recorder) -> Summary:
    lost, again = int(columns.lost_tokens.sum()), int(columns.resume_hit_tokens.sum())
    return {
        "count": recorder.num_preemptions,
        "by_mode": {
            "recompute": recorder.num_preemptions - recorder.num_swaps,
            "swap": recorder.num_swaps,
        },
        "auto": _auto(recorder),
        "requests": int((columns.preemptions > 0).sum()),
        "lost_tokens": lost,
        "resume_hit_tokens": again,
        "recomputed_tokens": lost - again,
    }


def _auto(recorder: Recorder) -> Summary | None:
    """How often the mode ``auto`` was right; ``None`` where no choice of it could be judged."""
    judged, right = sum(recorder.num_judged.values()), sum(recorder.num_right.values())
    if not judged:
        return None
    return {
        "judged": judged,
        "right": right,
        "percent_right": 100 * right / judged,
        "by_choice": {
            choice: {"judged": number, "right": recorder.num_right[choice]}
            for choice, number in recorder.num_judged.items()
        },
    }


def _host(recorder: Recorder, pool: PoolShape) -> Summary:
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


def _relocations(recorder: Recorder, pool: PoolShape) -> Summary | None:
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


def _copy_on_write(recorder: Recorder, pool: PoolShape) -> Summary:
    return {
        "blocks": recorder.copied_on_write_blocks,
        "bytes": recorder.copied_on_write_blocks * pool.block_bytes,
        "copy_s": recorder.copy_on_write_ps / PS_PER_S,
    }


def _retention(recorder: Recorder, pool: PoolShape) -> Summary | None:
    if recorder.retention is None:
        return None
    return recorder.retention.summary(pool, recorder.relocations, recorder.copy_ps / PS_PER_S)


def _stalls(columns: RequestColumns, recorder: Recorder) -> Summary:
    return {
        "count": recorder.num_stalls,
        "seconds": int(columns.stall_ps.sum()) / PS_PER_S,
        "longest_s": recorder.longest_stall_ps / PS_PER_S,
    }


def _cost(recorder: Recorder, source: str) -> Summary:
    outside = recorder.num_steps_outside
    return {
        "source": source,
        "steps": recorder.num_steps,
        "steps_outside": outside,
        "percent_outside": 100 * outside / recorder.num_steps if recorder.num_steps else None,
    }


def _rate(amount: int, span_ps: int) -> float | None:
    return amount * PS_PER_S / span_ps if span_ps else None
