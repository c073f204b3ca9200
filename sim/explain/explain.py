"""Why a run came out as it did: where hits were lost, and where time to first token went.

The run is made again, step by step, under a listener that books what the run folder does not hold.
Two further runs tell what the cache lost to its size and to its order of eviction: one with an
infinite cache, one that evicts the furthest next use. Samples that are requests of their own are
explained one by one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.documents.explain import Explanation, Hits, MeanTtft, Ttft
from kvsim.sim.engine.samples import Samples
from kvsim.sim.explain.hit_losses import hit_parts
from kvsim.sim.explain.ttft_parts import PARTS, TtftParts
from kvsim.sim.run.drive import NOBODY, Watchers
from kvsim.sim.run.run import simulate_as
from kvsim.sim.scenario.setup import set_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.sim.run.options import RunOptions
    from kvsim.sim.run.run import Run
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.traces.trace.trace import Trace

SLOWEST: Final = 0.01
_PS: Final = 1e-12


def explain(trace: Trace, scenario: Scenario, options: RunOptions) -> Explanation:
    """Explain a run.

    Parameters
    ----------
    options
        Those that shaped the run.

    Raises
    ------
    ValueError
        As :func:`~kvsim.sim.run.run.simulate`; and where tokens were dropped by choice, since what
        that costs in hits is told apart from nothing else.
    """
    if scenario.retention.kind != "model":
        raise ValueError(
            f"retention.kind = {scenario.retention.kind!r} ends publishing at the first drop; what "
            "that costs in hits cannot be told apart: explain a run with retention.kind = "
            "'model'"
        )
    options = replace(options, step=False, audit=False)
    trace = _one_by_one(trace, scenario, options)
    parts = TtftParts(len(trace))
    run = simulate_as(trace, scenario, options, Watchers(listener=parts))
    recorder = run.engine.recorder

    def hits_with(path: str, value: object) -> NDArray[np.int64]:
        other = scenario.with_values({path: value})
        return _hits(simulate_as(trace, other, options, NOBODY))

    best = infinite = None
    config = run.setup.config
    if config.enable_prefix_caching and config.allocator.index == "hash":
        best = hits_with("eviction.policy", "furthest-next-use")
        infinite = hits_with("eviction.capacity", float("inf"))
    hits = hit_parts(
        run.trace,
        parts.admission_order,
        _hits(run),
        block_size=config.block_size,
        caching=config.enable_prefix_caching,
        best=best,
        infinite=infinite,
    )
    table = parts.table(recorder)
    table = table[table.min(axis=1, initial=0) >= 0]
    slowest = np.argsort(table.sum(axis=1), kind="stable")[::-1]
    slowest = slowest[: max(int(len(table) * SLOWEST), min(len(table), 1))]
    return Explanation(
        hits=Hits(prompt_tokens=sum(hits.values()), parts=hits),
        ttft=Ttft(all=_means(table), slowest=_means(table[slowest])),
    )


def _one_by_one(trace: Trace, scenario: Scenario, options: RunOptions) -> Trace:
    """Trace with a request for each sample; as it is where :func:`simulate` refuses samples."""
    has_times = trace.has_time is None or bool(trace.has_time.all())
    waits = options.closed or options.has_users or not has_times
    samples = None if waits else Samples.of(trace, set_up(scenario).config)
    return trace if samples is None else samples.trace


def _hits(run: Run) -> NDArray[np.int64]:
    return np.array(run.engine.recorder.hit_tokens, dtype=np.int64)


def _means(table: NDArray[np.int64]) -> MeanTtft:
    means = table.mean(axis=0) * _PS if len(table) else np.zeros(len(PARTS))
    parts = dict(zip(PARTS, means.tolist(), strict=True))
    return MeanTtft(requests=len(table), mean_parts_s=parts)
