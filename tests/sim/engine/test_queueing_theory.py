"""Known answers: one seat is an M/G/1 queue, and Little's law holds to the picosecond.

With one seat, no cache and a linear cost a request of n output tokens is served for
``prefill + (n - 1) * decode``, one after another in order of arrival. So the mean wait for Poisson
arrivals is that of Pollaczek and Khinchine, with the exact moments of the discrete service times,
and each single wait is that of Lindley's recursion.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest
from numpy.typing import NDArray

from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.traces.trace.trace import Trace
from tests.engine_run import run

if TYPE_CHECKING:
    from kvsim.sim.run.drive import EngineRun

Ints = NDArray[np.int64]

LOAD = 0.7
PROMPT = 100
COST = LinearCost(
    base_ps=4_000_000_000, per_prefill_token_ps=30_000_000, per_decode_seq_ps=50_000_000
)
PREFILL_PS = COST.base_ps + PROMPT * COST.per_prefill_token_ps
DECODE_PS = COST.base_ps + COST.per_decode_seq_ps
CONFIG = SchedulerConfig(
    max_num_seqs=1, num_gpu_blocks=4096, max_model_len=60_000, enable_prefix_caching=False
)
NUM_BATCHES = 25


@dataclass(frozen=True)
class Outputs:
    """A distribution of output lengths: how to draw them, E[n] and E[n^2]."""

    kind: str
    mean: float
    mean_square: float

    def draw(self, number: int, generator: np.random.Generator) -> Ints:
        if self.kind == "geometric":
            return generator.geometric(1 / self.mean, number).astype(np.int64)
        if self.kind == "bimodal":
            return np.where(generator.random(number) < 0.8, 2, 42).astype(np.int64)
        return np.full(number, round(self.mean), dtype=np.int64)

    def service_moments(self) -> tuple[float, float]:
        """E[S] and E[S^2] of S = PREFILL + (n - 1) * DECODE, in ps."""
        first, second = self.mean - 1, self.mean_square - 2 * self.mean + 1
        return (
            PREFILL_PS + DECODE_PS * first,
            PREFILL_PS**2 + 2 * PREFILL_PS * DECODE_PS * first + DECODE_PS**2 * second,
        )


P = 1 / 10
FIXED = Outputs("fixed", 10, 100)
GEOMETRIC = Outputs("geometric", 1 / P, (2 - P) / P**2)
BIMODAL = Outputs("bimodal", 0.8 * 2 + 0.2 * 42, 0.8 * 4 + 0.2 * 42**2)
ALL = pytest.mark.parametrize("outputs", [FIXED, GEOMETRIC, BIMODAL], ids=lambda o: o.kind)


@cache
def simulated(outputs: Outputs, number: int, *, step: bool) -> tuple[Trace, EngineRun]:
    generator = np.random.default_rng(2024)
    mean_gap_ns = outputs.service_moments()[0] / LOAD / 1000
    trace = Trace(
        outputs.kind,
        np.cumsum(np.rint(generator.exponential(mean_gap_ns, number)).astype(np.int64)),
        np.full(number, PROMPT, dtype=np.int64),
        outputs.draw(number, generator),
    )
    return trace, run(trace, CONFIG, COST, max_tokens=trace.output_tokens, step=step)


def waits_ps(trace: Trace, done: EngineRun) -> Ints:
    return np.array(done.recorder.first_scheduled_ps) - trace.arrival_ns * 1000


def lindley_ps(trace: Trace) -> Ints:
    """``W' = max(W + S - A, 0)``: how far the random walk is above its minimum so far."""
    service_ps = PREFILL_PS + (trace.output_tokens - 1) * DECODE_PS
    gaps_ps = np.diff(trace.arrival_ns * 1000)
    walk = np.concatenate([[0], np.cumsum(service_ps[:-1] - gaps_ps)])
    waits: Ints = walk - np.minimum.accumulate(walk)
    return waits


@ALL
@pytest.mark.parametrize(("number", "step"), [(1000, True), (10_000, False)])
def test_each_wait_is_that_of_lindleys_recursion(outputs: Outputs, number: int, step: bool) -> None:
    trace, done = simulated(outputs, number, step=step)
    assert done.engine == ("stepper" if step else "leaper")
    assert np.array_equal(waits_ps(trace, done), lindley_ps(trace))


@pytest.mark.slow
@ALL
def test_the_mean_wait_is_that_of_pollaczek_and_khinchine(outputs: Outputs) -> None:
    trace, done = simulated(outputs, 50_000, step=False)
    mean_ps, mean_square = outputs.service_moments()
    expected_ps = LOAD / mean_ps * mean_square / (2 * (1 - LOAD))
    waits = waits_ps(trace, done)[len(trace) // 20 :]  # less the start from an empty queue
    batches = [float(batch.mean()) for batch in np.array_split(waits, NUM_BATCHES)]
    error_ps = float(np.std(batches, ddof=1)) / NUM_BATCHES**0.5
    assert error_ps < 0.05 * expected_ps, "the interval tells nothing"
    assert abs(float(waits.mean()) - expected_ps) < 2.8 * error_ps  # 99 % of Student's t, 24 df


@ALL
@pytest.mark.parametrize("step", [True, False])
def test_littles_law_is_exact(outputs: Outputs, step: bool) -> None:
    trace, done = simulated(outputs, 1000 if step else 50_000, step=step)
    recorder = done.recorder
    arrival_ps = trace.arrival_ns * 1000
    started_ps, ended_ps = np.array(recorder.first_scheduled_ps), np.array(recorder.finish_ps)
    waiting, running = sum(recorder.waited_ps.values()), sum(recorder.windows["running"])
    assert waiting == int((started_ps - arrival_ps).sum())
    assert running == int((ended_ps - started_ps).sum())
    assert waiting + running == int((ended_ps - arrival_ps).sum())
    assert waiting == recorder.waited_ps["max_num_seqs"] + recorder.waited_ps["step"]
    assert recorder.num_preemptions == 0
