"""One small page of each kind, with a word of the caller's in every name, id and path."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.calibrate.cache_lab_page import lab_page
from kvsim.calibrate.engine_logs.measured_run import LoadSeries, MeasuredRun
from kvsim.calibrate.measure.cache_lab import CacheRow, StepRow
from kvsim.calibrate.profile_page import profile_page
from kvsim.calibrate.validate.conversation import conversation
from kvsim.calibrate.validate.measured_replay import compare as compare_replay
from kvsim.calibrate.validate.measured_replay import replay, replay_trace
from kvsim.calibrate.validate.replay_page import replay_page
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.comparison.comparison import Comparison, compare
from kvsim.sim.comparison.pages.page import comparison_page
from kvsim.sim.comparison.presets import Published, PublishedLine, PublishedTable
from kvsim.sim.comparison.scenarios import allocator_scenarios
from kvsim.sim.cost.profile_file import load_bundled_profile
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.documents.plan import Term
from kvsim.sim.hardware import load_hardware
from kvsim.sim.models import load_model
from kvsim.sim.pool.document import plan_document
from kvsim.sim.pool.memory_terms import PoolRequest
from kvsim.sim.pool.plan import plan
from kvsim.sim.report.plan_page import plan_page
from kvsim.sim.report.run_page import run_page
from kvsim.sim.run.options import RunOptions
from kvsim.sim.run.run import Run, simulate
from kvsim.sim.scenario.loader import load_scenario
from kvsim.traces import bundled_path, read_trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kvsim.sim.documents.comparison import Metrics
    from kvsim.traces.trace.trace import Trace

_SMALL: Final[Mapping[str, object]] = {
    "engine.kv_memory": "1GiB",
    "engine.max_model_len": 4096,
    "slo.ttft": "1s",
}
NUM_REQUESTS: Final = 120


@cache
def small_trace() -> Trace:
    """Part of a bundled trace."""
    return read_trace(bundled_path("chat-2k"), limit=NUM_REQUESTS)


@cache
def small_run() -> Run:
    """A run in which requests wait, hit the cache, are preempted and swapped."""
    values = {**_SMALL, "preemption.mode": "swap", "preemption.swap_space": "1GiB"}
    scenario = load_scenario("vllm-v0").with_values(values)
    return simulate(small_trace(), scenario, rate_scale=30)


@cache
def small_comparison() -> Comparison:
    """Three allocators."""
    named = allocator_scenarios("orca-oracle,paged,prefix")
    scenarios = {name: scenario.with_values(_SMALL) for name, scenario in named.items()}
    return compare(small_trace(), scenarios, jobs=1, rate_scale=30)


def _run(word: str) -> Iterator[str]:
    run = small_run()
    receipt = run.trace.receipt
    assert receipt is not None, "the trace was read from a file"
    trace = replace(
        run.trace,
        name=word,
        ids=[f"{word}{row}" for row in range(len(run.trace))],
        receipt=replace(receipt, path=word, format=word),
    )
    scenario = replace(
        run.scenario,
        preset=word,
        model=replace(run.scenario.model, name=word),
        hardware=replace(run.scenario.hardware, name=word),
    )
    # how rules were verified is looked up by the preset's name: found before it is changed
    verdict = replace(run.summary.verdict, text=word)
    told = replace(run.summary, notes=[word], verdict=verdict)
    options = RunOptions()
    object.__setattr__(options, "think_time", word)  # no law: the options would refuse it
    changed = replace(run, trace=trace, scenario=scenario, options=options)
    changed.__dict__["summary"] = told
    return run_page(changed)


def _with_more_columns(metrics: Metrics) -> Metrics:
    return replace(
        metrics,
        most_overtaken=3,
        heaviest_user_ttft_s_mean=12.3,
        other_users_ttft_s_mean=4.56,
        other_users_ttft_s_p99=78.9,
    )


def _comparison(word: str) -> Iterator[str]:
    found = small_comparison()
    rows = tuple(
        replace(
            row,
            name=f"{word}{row.name}",
            trace=word,
            notes=[word],
            verdict=replace(row.verdict, text=word),
            verified=word,
            scenario={**row.scenario, "preset": word},
            cost=replace(row.cost, source=word),
            metrics=_with_more_columns(row.metrics),
        )
        for row in found.rows
    )
    traces = (replace(found.traces[0], name=word, sha256=word),)
    line = PublishedLine(word, (1.0, None), (1.5, 2.0))
    published = Published(word, word, (PublishedTable(word, (word, word), (line,)),))
    changed = replace(found, rows=rows, traces=traces, notes=(word,))
    return comparison_page(changed, published)


def _plan(word: str) -> Iterator[str]:
    request = PoolRequest(model=load_model("llama-3.1-8b"), hardware=load_hardware("h100-sxm"))
    pool = plan(request)
    document = plan_document(request, pool, {word: 1000})
    odd = Term(bytes=2**30, formula=word, assumed=True)
    weights = replace(document.terms["weights"], formula=word)
    changed = replace(
        document,
        model=word,
        hardware=word,
        engine=word,
        notes=[word],
        kv_bytes_per_token=replace(document.kv_bytes_per_token, formula=word),
        terms=document.terms | {"weights": weights, word: odd},
    )
    return plan_page(changed, pool)


def _calibration(word: str) -> Iterator[str]:
    points = [
        {
            "block": "decode",
            "role": role,
            "loads": {"batch": batch, "context": 256},
            "times_us": [10.0 + batch],
            "rotated_bytes": 0,
            "discarded": 0,
            "anchor_us": 100.0,
        }
        for batch, role in ((1, "fit"), (8, "fit"), (16, "hold-out"))
    ]
    profile = load_bundled_profile("h100-sxm")
    device = {"device": {"product": word}}
    return profile_page(
        replace(
            profile,
            name=word,
            source=word,
            hardware=word,
            fidelity=word,
            model=replace(profile.model, name=word),
            measurement={"points": points, "setup": device},
        )
    )


def _validation(word: str) -> Iterator[str]:
    arrival_s = np.arange(5) / 10
    times_s = np.linspace(0, 2, 30)
    load = np.sin(times_s) + 1
    run = MeasuredRun(
        name=word,
        source=word,
        engine={},
        ttft_boundary=word,
        ids=tuple(f"{word}{row}" for row in range(5)),
        arrival_s=arrival_s,
        prompt_tokens=np.full(5, 100),
        output_tokens=np.full(5, 10),
        first_token_s=arrival_s + 0.1,
        last_token_s=arrival_s + 1,
        series=LoadSeries(times_s, load, load, load),
    )
    ours = replay(replay_trace(run), SchedulerConfig(), LinearCost(base_ps=10**11))
    notes = [f"cost: {word}", f"{word}: {word}", word]
    return replay_page(run, ours, compare_replay(run, ours), notes)


def _cache_lab(word: str) -> Iterator[str]:
    cached = [CacheRow(128, 2000.0, 9000.0), CacheRow(256, 2500.0, None)]
    steps = [StepRow(1, 128, 2000.0), StepRow(1, 256, 2500.0)]
    return lab_page(word, cached, steps, conversation(LinearCost(base_ps=10**9)))


PAGES: Final[dict[str, Callable[[str], Iterator[str]]]] = {
    "run": _run,
    "comparison": _comparison,
    "plan": _plan,
    "calibration": _calibration,
    "validation": _validation,
    "cache-lab": _cache_lab,
}
"""Writers of a page of each kind, given the word."""
