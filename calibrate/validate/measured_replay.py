"""Replay a measured run: same arrivals, lengths, engine options and number of blocks.

The replay is compared with the run by the same definitions on both sides (``docs/metrics.md``);
TTFT has the boundary that the log used, ours is the engine's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.calibrate.engine_logs.measured_run import LoadSeries
from kvsim.sim.conformance.stepper_log import StepperLog
from kvsim.sim.documents.replay import ReplayFigure
from kvsim.sim.metrics.phases import Windows
from kvsim.sim.metrics.request_columns import RequestColumns
from kvsim.sim.metrics.tables import series_table
from kvsim.sim.pool.shape import PoolShape
from kvsim.sim.run import drive as engine_run
from kvsim.traces.adjust.max_tokens import assume_max_tokens
from kvsim.traces.common.quantities import PS_PER_S
from kvsim.traces.trace.trace import PrefixIds, Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvsim.calibrate.engine_logs.measured_run import MeasuredRun
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.cost.profile_cost import ProfileCost
    from kvsim.sim.cost.step_cost import StepCost
    from kvsim.sim.scenario.scenario import Scenario


STATISTICS: Final = ("mean", "p50", "p99")
_ENGINE_KEYS: Final = {"num_gpu_blocks": "engine.num_gpu_blocks_override"}


@dataclass(frozen=True, slots=True)
class Replay:
    """What the simulator made of a measured run; columns in the order of the run."""

    ttft_s: NDArray[np.float64]
    tpot_s: NDArray[np.float64]
    itl_s: tuple[float, float, float]
    """Mean, median and 99th percentile of all gaps between tokens (bins of 1 %)."""
    e2e_s: NDArray[np.float64]
    preemptions: int
    hit_tokens: int
    resume_hit_tokens: int
    num_finished: int
    engine: str
    series: LoadSeries


def replay_trace(run: MeasuredRun, ids: Trace | None = None) -> Trace:
    """Trace of a run; ``ids`` is a trace of the same requests that knows their prefixes.

    Raises ``ValueError`` where the lengths of ``ids`` are not those of the run.
    """
    prefix = _shared_prefix(run)
    if ids is not None:
        same = len(ids) == len(run) and all(
            np.array_equal(ours, theirs)
            for ours, theirs in (
                (ids.prompt_tokens, run.prompt_tokens),
                (ids.output_tokens, run.output_tokens),
            )
        )
        if not same:
            msg = (
                f"trace {ids.name} is not of the run {run.name}: its {len(ids)} requests do not "
                f"have the lengths of the {len(run)} measured ones, in their order"
            )
            raise ValueError(msg)
        prefix = ids.prefix
    return Trace(
        name=run.name,
        arrival_ns=np.round(run.arrival_s * 1e9).astype(np.int64),
        prompt_tokens=run.prompt_tokens.astype(np.int64),
        output_tokens=run.output_tokens.astype(np.int64),
        ids=run.ids,
        prefix=prefix,
    )


def _shared_prefix(run: MeasuredRun) -> PrefixIds | None:
    """Ids of prompts that share their first tokens and nothing else, one id a token."""
    if not run.shared_prefix_tokens:
        return None
    shared = run.shared_prefix_tokens
    ids, next_id = [], shared
    for prompt in run.prompt_tokens.tolist():
        own = max(prompt - shared, 0)
        ids += [*range(min(prompt, shared)), *range(next_id, next_id + own)]
        next_id += own
    offsets = np.concatenate([[0], np.cumsum(run.prompt_tokens)])
    return PrefixIds(1, offsets.astype(np.int64), np.array(ids, dtype=np.int64))


def engine_values(run: MeasuredRun) -> dict[str, object]:
    """Scenario keys of the options that a run's log holds."""
    return {_ENGINE_KEYS.get(name, f"engine.{name}"): value for name, value in run.engine.items()}


def engine_rules(run: MeasuredRun, scenario: Scenario) -> SchedulerConfig:
    """Scheduler options of a run whose log holds them all; no model or card is needed."""
    if not run.engine:
        msg = f"{run.name} has no engine options: name model, hardware and a scenario"
        raise ValueError(msg)

    def size(name: str) -> int:
        return int(str(run.engine[name]))

    return scenario.with_values(engine_values(run)).scheduler_config(
        block_size=size("block_size"),
        num_gpu_blocks=size("num_gpu_blocks"),
        max_num_seqs=size("max_num_seqs"),
        max_num_batched_tokens=size("max_num_batched_tokens"),
        max_model_len=size("max_model_len"),
        async_scheduling=bool(run.engine["async_scheduling"]),
    )


def with_overhead(cost: ProfileCost, overhead_us: float) -> ProfileCost:
    """``cost`` with the host's terms replaced by so much a step that nothing hides.

    An asynchronous engine overlaps scheduling with the device; what is left between two steps
    (launch, sampled tokens on their way back) is what is assumed here.
    """
    return replace(
        cost,
        host_ps=0,
        host_per_request_ps=0,
        head=cost.head.later(round(overhead_us * 1e6)),
    )


def replay(trace: Trace, config: SchedulerConfig, cost: StepCost) -> Replay:
    """Run the trace."""
    max_tokens = assume_max_tokens(trace, "model", config.max_model_len)
    done = engine_run.run(trace, engine_run.Engine(config, cost), max_tokens=max_tokens)
    recorder, gaps = done.recorder, done.recorder.gaps
    columns = RequestColumns.of(trace, recorder)
    shape = PoolShape(config.num_gpu_blocks, config.block_size, 1, 0, config.num_null_blocks)
    table, windows = series_table(recorder, shape), Windows.of(recorder)
    usable = config.usable_blocks
    used = 1 - (table["free_bytes"] + table["cached_bytes"]) / max(usable, 1)
    series = LoadSeries(
        time_s=windows.start_ps / PS_PER_S,
        running=np.asarray(table["running"], dtype=np.float64),
        waiting=np.asarray(table["waiting"], dtype=np.float64),
        kv_percent=100 * used,
    )
    return Replay(
        ttft_s=columns.ttft_s(),
        tpot_s=columns.tpot_s(),
        itl_s=(
            gaps.mean_ps() / PS_PER_S,
            gaps.quantile_ps(0.5) / PS_PER_S,
            gaps.quantile_ps(0.99) / PS_PER_S,
        ),
        e2e_s=columns.e2e_s(),
        preemptions=int(columns.preemptions.sum()),
        hit_tokens=int(columns.hit_tokens.sum()),
        resume_hit_tokens=int(columns.resume_hit_tokens.sum()),
        num_finished=int(columns.finished().sum()),
        engine=done.engine,
        series=series,
    )


def replay_schedule(
    trace: Trace, config: SchedulerConfig, cost: StepCost
) -> list[tuple[tuple[str, int, int], ...]]:
    """Schedule of every step: ``(request, tokens, computed before)`` in the engine's order."""
    log = StepperLog(trace)
    max_tokens = assume_max_tokens(trace, "model", config.max_model_len)
    engine_run.run(
        trace,
        engine_run.Engine(config, cost),
        max_tokens=max_tokens,
        watchers=engine_run.Watchers(listener=log),
    )
    return [
        tuple((name, tokens, past) for name, tokens, past, _ in record["sched"])
        for record in log.records
        if record["type"] == "step"
    ]


def compare(run: MeasuredRun, ours: Replay) -> list[ReplayFigure]:
    """Mean, median and p99 of TTFT, TPOT, ITL and E2E, theirs and ours.

    Over requests that have the figure; gaps of preemption are in TPOT and ITL of both.
    """
    gaps = run.itl_s()
    pairs = {
        "TTFT": (_statistics(run.ttft_s()), _statistics(ours.ttft_s)),
        "TPOT": (_statistics(run.tpot_s()), _statistics(ours.tpot_s)),
        "ITL": (None if gaps is None else _statistics(gaps), ours.itl_s),
        "E2E": (_statistics(run.e2e_s()), _statistics(ours.e2e_s)),
    }
    return [
        _figure(metric, name, None if theirs is None else theirs[place], found[place])
        for metric, (theirs, found) in pairs.items()
        for place, name in enumerate(STATISTICS)
    ]


def _figure(metric: str, statistic: str, theirs_s: float | None, ours_s: float) -> ReplayFigure:
    return ReplayFigure(
        metric=metric,
        statistic=statistic,
        theirs_s=theirs_s,
        ours_s=ours_s,
        error=None if theirs_s is None else ours_s / theirs_s - 1,
    )


def _statistics(values: NDArray[np.float64]) -> tuple[float, float, float]:
    return (
        float(np.nanmean(values)),
        float(np.nanpercentile(values, 50)),
        float(np.nanpercentile(values, 99)),
    )


def first_difference(
    run: MeasuredRun, schedule: Sequence[tuple[tuple[str, int, int], ...]]
) -> int | None:
    """First step whose requests, tokens or computed tokens are not theirs; ``None`` = identical."""
    for number, (theirs, ours) in enumerate(
        zip((step.schedule for step in run.steps), schedule, strict=False)
    ):
        if theirs != ours:
            return number
    return None if len(run.steps) == len(schedule) else min(len(run.steps), len(schedule))
