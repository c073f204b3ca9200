"""Summary of a run; ``docs/metrics.md`` defines each number.

Percentiles and goodput are over finished requests; the counts of refused and unfinished requests
are separate. Undefined numbers are ``None``, never nan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsim.sim.documents.summary import (
    Auto,
    ByChoice,
    ByMode,
    Cache,
    Cost,
    Goodput,
    Judged,
    Latency,
    Limits,
    Preemptions,
    Requests,
    Stalls,
    Summary,
    Throughput,
    TraceName,
    Waited,
    Window,
)
from kvsim.sim.metrics import memory as memory_metrics
from kvsim.sim.metrics.distribution import gap_statistics, statistics
from kvsim.sim.metrics.phases import Phases, Windows, summarise
from kvsim.sim.metrics.prediction import prediction_quality
from kvsim.sim.metrics.request_columns import RequestColumns
from kvsim.sim.metrics.users import summarise_users
from kvsim.sim.metrics.verdict import judge
from kvsim.sim.metrics.waiting import summarise_waiting
from kvsim.sim.recording.recorder import (
    ABORTED,
    FINISHED,
    NOT_SENT,
    REFUSALS_KEPT,
    REFUSED,
    UNFINISHED,
)
from kvsim.traces.common.quantities import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvsim.sim.documents.summary import EngineUsed, ScenarioNames
    from kvsim.sim.pool.shape import PoolShape
    from kvsim.sim.recording.recorder import Recorder
    from kvsim.sim.scenario.tables import Slo
    from kvsim.traces.trace.trace import Trace


def summarise_run(
    trace: Trace,
    recorder: Recorder,
    pool: PoolShape,
    slo: Slo,
    *,
    scenario: ScenarioNames,
    engine: EngineUsed,
    cost_source: str,
    predictor: str = "none",
    partial: bool = False,
    notes: Sequence[str] = (),
) -> Summary:
    """Return all metrics of a run; O(n log^2 n)."""
    columns = RequestColumns.of(trace, recorder)
    windows = Windows.of(recorder)
    phases = Phases.of(columns, recorder, windows)
    span_ps = phases.end_ps - phases.first_arrival_ps
    return Summary(
        trace=TraceName(name=trace.name, sha256=trace.sha256),
        scenario=scenario,
        engine=engine,
        partial=partial,
        notes=[*notes],
        requests=_requests(trace, columns, recorder),
        window=_window(phases, recorder),
        phases=summarise(phases, columns, windows),
        verdict=judge(columns, recorder, phases, windows),
        latency=_latency(columns, recorder),
        throughput=_throughput(columns, span_ps),
        goodput=_goodput(columns, slo, span_ps),
        memory=memory_metrics.memory(recorder, pool),
        cache=_cache(columns, recorder),
        preemptions=_preemptions(columns, recorder),
        host=memory_metrics.host(recorder, pool),
        relocations=memory_metrics.relocations(recorder, pool),
        copy_on_write=memory_metrics.copy_on_write(recorder, pool),
        retention=memory_metrics.retention(recorder, pool),
        stalls=_stalls(columns, recorder),
        queue=summarise_waiting(columns, phases.end_ps),
        users=summarise_users(trace, columns),
        prediction=prediction_quality(recorder, predictor),
        waited_s=_waited(recorder),
        cost=_cost(recorder, cost_source),
    )


def _requests(trace: Trace, columns: RequestColumns, recorder: Recorder) -> Requests:
    refused = np.flatnonzero(columns.status == REFUSED)
    return Requests(
        total=len(columns),
        finished=int((columns.status == FINISHED).sum()),
        refused=len(refused),
        unfinished=int((columns.status == UNFINISHED).sum()),
        aborted=int((columns.status == ABORTED).sum()),
        not_sent=int((columns.status == NOT_SENT).sum()),
        refused_ids=[trace.request_id(int(index)) for index in refused[:REFUSALS_KEPT]],
        refused_reasons={
            trace.request_id(index): recorder.refusals[index] for index in sorted(recorder.refusals)
        },
    )


def _window(phases: Phases, recorder: Recorder) -> Window:
    return Window(
        seconds=(phases.end_ps - phases.first_arrival_ps) / PS_PER_S,
        first_arrival_s=phases.first_arrival_ps / PS_PER_S,
        last_arrival_s=phases.last_arrival_ps / PS_PER_S,
        end_s=phases.end_ps / PS_PER_S,
        peak_running=recorder.peak_running,
    )


def _latency(columns: RequestColumns, recorder: Recorder) -> Latency:
    finished = columns.finished()
    return Latency(
        queue_s=statistics(columns.queue_s()[finished]),
        ttft_s=statistics(columns.ttft_s()[finished]),
        tpot_s=statistics(columns.tpot_s()[finished]),
        itl_s=gap_statistics(recorder.gaps),
        e2e_s=statistics(columns.e2e_s()[finished]),
        normalised_s_per_token=statistics(columns.normalised_s()[finished]),
    )


def _throughput(columns: RequestColumns, span_ps: int) -> Throughput:
    finished = columns.finished()
    output_tokens = int(columns.generated_tokens().sum())
    prompt_tokens = columns.prompt_tokens * columns.num_prompts
    total_tokens = output_tokens + int(prompt_tokens[finished].sum())
    return Throughput(
        requests_per_s=_rate(int(finished.sum()), span_ps),
        sustained_requests_per_s=sustained_rate(columns.finish_ps[finished]),
        output_tokens_per_s=_rate(output_tokens, span_ps),
        total_tokens_per_s=_rate(total_tokens, span_ps),
        output_tokens=output_tokens,
        total_tokens=total_tokens,
    )


def sustained_rate(finish_ps: NDArray[np.int64]) -> float | None:
    """Return requests a second without the first and the last tenth of the finished requests."""
    ends = np.sort(finish_ps)
    edge = len(ends) // 10
    if edge == 0:
        return None
    first_ps, last_ps = int(ends[edge]), int(ends[-1 - edge])
    return _rate(len(ends) - 1 - 2 * edge, last_ps - first_ps)


def _goodput(columns: RequestColumns, slo: Slo, span_ps: int) -> Goodput | None:
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

    def seconds(limit_ps: int | None) -> float | None:
        return None if limit_ps is None else limit_ps / PS_PER_S

    return Goodput(
        slo=Limits(
            ttft_s=seconds(slo.ttft_ps), tpot_s=seconds(slo.tpot_ps), e2e_s=seconds(slo.e2e_ps)
        ),
        requests=num_good,
        requests_per_s=_rate(num_good, span_ps),
        percent_of_finished=100 * num_good / num_finished if num_finished else None,
    )


def _cache(columns: RequestColumns, recorder: Recorder) -> Cache:
    prompt_tokens = int((columns.prompt_tokens * columns.num_prompts).sum())
    hit_tokens = int(columns.hit_tokens.sum())
    return Cache(
        prompt_tokens=prompt_tokens,
        hit_tokens=hit_tokens,
        hit_percent=100 * hit_tokens / prompt_tokens if prompt_tokens else None,
        evicted_blocks=recorder.num_evicted_blocks,
    )


def _preemptions(columns: RequestColumns, recorder: Recorder) -> Preemptions:
    lost, again = int(columns.lost_tokens.sum()), int(columns.resume_hit_tokens.sum())
    return Preemptions(
        count=recorder.num_preemptions,
        by_mode=ByMode(
            recompute=recorder.num_preemptions - recorder.num_swaps,
            swap=recorder.num_swaps,
        ),
        auto=_auto(recorder),
        requests=int((columns.preemptions > 0).sum()),
        lost_tokens=lost,
        resume_hit_tokens=again,
        recomputed_tokens=lost - again,
    )


def _auto(recorder: Recorder) -> Auto | None:
    """Return how often the mode ``auto`` was right; ``None`` if no choice could be evaluated."""
    judged, right = recorder.num_judged, recorder.num_right
    num_judged, num_right = sum(judged.values()), sum(right.values())
    if not num_judged:
        return None
    return Auto(
        judged=num_judged,
        right=num_right,
        percent_right=100 * num_right / num_judged,
        by_choice=ByChoice(
            recompute=Judged(judged=judged["recompute"], right=right["recompute"]),
            swap=Judged(judged=judged["swap"], right=right["swap"]),
        ),
    )


def _stalls(columns: RequestColumns, recorder: Recorder) -> Stalls:
    return Stalls(
        count=recorder.num_stalls,
        seconds=int(columns.stall_ps.sum()) / PS_PER_S,
        longest_s=recorder.longest_stall_ps / PS_PER_S,
    )


def _waited(recorder: Recorder) -> Waited:
    waited_ps = recorder.waited_ps
    return Waited(
        step=waited_ps["step"] / PS_PER_S,
        max_num_seqs=waited_ps["max_num_seqs"] / PS_PER_S,
        token_budget=waited_ps["token_budget"] / PS_PER_S,
        blocks=waited_ps["blocks"] / PS_PER_S,
        admission_rule=waited_ps["admission rule"] / PS_PER_S,
    )


def _cost(recorder: Recorder, source: str) -> Cost:
    outside = recorder.num_steps_outside
    return Cost(
        source=source,
        steps=recorder.num_steps,
        steps_outside=outside,
        percent_outside=100 * outside / recorder.num_steps if recorder.num_steps else None,
    )


def _rate(amount: int, span_ps: int) -> float | None:
    return amount * PS_PER_S / span_ps if span_ps else None
