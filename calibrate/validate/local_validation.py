"""Sim against real on this device: one trace, once on the real decoder, once in the simulator.

Both run the same scheduler, allocator and metrics; the real run's steps last as long as the device
takes, the simulated one's as long as the profile says. So what differs is the step cost, and what
follows from it. A machine that is slower for a while (:mod:`kvsim.calibrate.measure.anchor`) makes
real steps longer than any profile: these are run again, and where the patience for it ended, the
errors are given with and without them.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvsim.calibrate.validate.local_decoder import LocalDecoder, StepDurations
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.recording.recorder import FINISHED
from kvsim.sim.run.drive import Engine, Watchers, run
from kvsim.traces import Trace
from kvsim.traces.common.quantities import PS_PER_S

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from kvsim.calibrate.measure.anchor import Anchor
    from kvsim.kernels.decoder import Decoder
    from kvsim.sim.cost.step_cost import StepCost
    from kvsim.sim.recording.recorder import Recorder


@dataclass(frozen=True, slots=True)
class LocalTrace:
    """A short trace and the engine that it is too much for.

    ``num_requests`` prompts and answers of random lengths arrive within ``span_s``; the pool holds
    ``pool_share`` of what all of them need at the end.
    """

    num_requests: int = 12
    prompt_tokens: tuple[int, int] = (48, 192)
    output_tokens: tuple[int, int] = (8, 24)
    span_s: float = 2.0
    max_num_batched_tokens: int = 128
    max_num_seqs: int = 8
    pool_share: float = 0.25
    block_size: int = 16
    seed: int = 0

    def trace(self) -> Trace:
        """Trace with lengths and arrivals drawn from the seed."""
        rng = np.random.default_rng(self.seed)
        count = self.num_requests
        arrivals = np.sort(rng.uniform(0, self.span_s, count))
        return Trace(
            name="local",
            arrival_ns=((arrivals - arrivals[0]) * 1e9).astype(np.int64),
            prompt_tokens=rng.integers(*self.prompt_tokens, count, dtype=np.int64, endpoint=True),
            output_tokens=rng.integers(*self.output_tokens, count, dtype=np.int64, endpoint=True),
            sha256="",
        )

    def config(self, trace: Trace) -> SchedulerConfig:
        """Rules of vLLM 0.32 with chunked prefill, synchronous, without prefix cache."""
        lengths = trace.prompt_tokens + trace.output_tokens
        blocks = -(-lengths // self.block_size)
        num_blocks = max(int(blocks.sum() * self.pool_share), int(blocks.max())) + 1
        return SchedulerConfig(
            block_size=self.block_size,
            num_gpu_blocks=num_blocks,
            max_num_batched_tokens=self.max_num_batched_tokens,
            max_num_seqs=self.max_num_seqs,
            max_model_len=int(lengths.max()) + 1,
            enable_prefix_caching=False,
            async_scheduling=False,
        )


@dataclass(frozen=True, slots=True)
class Side:
    """What one run gave; times in s."""

    num_steps: int
    num_preemptions: int
    step_s: float
    tpot_s: float
    ttft_s: float
    e2e_s: float

    @classmethod
    def of(cls, recorder: Recorder, step_s: float) -> Side:
        """Means over finished requests; TPOT over those of two tokens and more."""
        done = [i for i, status in enumerate(recorder.status) if status == FINISHED]
        assert recorder.arrival_ps is not None, "the driver sets the arrivals"
        arrival_ps = recorder.arrival_ps
        first, last = recorder.first_token_ps, recorder.finish_ps
        tpots = [
            (last[i] - first[i]) / (recorder.output_tokens[i] - 1)
            for i in done
            if recorder.output_tokens[i] > 1
        ]
        return cls(
            num_steps=recorder.num_steps,
            num_preemptions=recorder.num_preemptions,
            step_s=step_s,
            tpot_s=statistics.fmean(tpots) / PS_PER_S,
            ttft_s=statistics.fmean(first[i] - arrival_ps[i] for i in done) / PS_PER_S,
            e2e_s=statistics.fmean(last[i] - arrival_ps[i] for i in done) / PS_PER_S,
        )


class StepErrors(NamedTuple):
    """Signed error of the mean step time, and median of the absolute errors of single steps."""

    mean: float
    median: float


@dataclass(frozen=True, slots=True)
class LocalResult:
    """Both runs, and each real step beside what the profile says of that very step (ps)."""

    real: Side
    simulated: Side
    durations_ps: tuple[int, ...]
    expected_ps: tuple[int, ...]
    steady: tuple[bool, ...]
    """Of each real step: whether the anchor was as fast as at its best, both before and after."""
    num_again: int
    """Runs of real steps that did not count, as a slower machine ran them."""
    num_outside: int
    """Simulated steps outside the measured range."""

    def step_errors(self, *, steady_only: bool = False) -> StepErrors | None:
        """Errors over the real run's own steps; ``None`` where no step is steady."""
        pairs = [
            (ours, theirs)
            for ours, theirs, steady in zip(
                self.expected_ps, self.durations_ps, self.steady, strict=True
            )
            if steady or not steady_only
        ]
        if not pairs:
            return None
        return StepErrors(
            mean=sum(ours for ours, _ in pairs) / sum(theirs for _, theirs in pairs) - 1,
            median=statistics.median(abs(ours / theirs - 1) for ours, theirs in pairs),
        )


def validate_local(
    local: LocalTrace, decoder: Decoder, cost: StepCost, anchor: Anchor, *, vocab_size: int
) -> LocalResult:
    """Run the trace on the decoder, then in the simulator with ``cost``.

    The decoder's cache must hold the blocks of ``local.config``. ``anchor``: of the decoder's
    device; a reference is taken first. Whether anyone is preempted depends on how fast the device
    is: both sides count it.
    """
    import torch

    trace = local.trace()
    config = local.config(trace)
    rng = torch.Generator().manual_seed(local.seed)
    prompts = [
        torch.randint(0, vocab_size, (int(count),), generator=rng).to(decoder.device)
        for count in trace.prompt_tokens
    ]
    _warm_up(decoder, prompts[0])
    anchor.take_reference()
    listener = LocalDecoder(
        decoder,
        prompts,
        synchronize=synchronizer(decoder.device),
        anchor=anchor,
    )
    engine, most = Engine(config, cost), trace.output_tokens
    real = run(trace, engine, max_tokens=most, watchers=Watchers(listener=listener)).recorder
    simulated_steps = StepDurations()
    watchers = Watchers(listener=simulated_steps)
    simulated = run(trace, engine, max_tokens=most, watchers=watchers).recorder
    return LocalResult(
        real=Side.of(real, statistics.fmean(listener.durations_ps) / PS_PER_S),
        simulated=Side.of(simulated, statistics.fmean(simulated_steps.durations_ps) / PS_PER_S),
        durations_ps=tuple(listener.durations_ps),
        expected_ps=tuple(listener.expected_ps),
        steady=tuple(anchor.is_steady(us) for us in listener.anchors_us),
        num_again=listener.num_again,
        num_outside=simulated.num_steps_outside,
    )


def _warm_up(decoder: Decoder, prompt: torch.Tensor) -> None:
    """A chunk and a decode: libraries plan at the first call of each kind."""
    import torch

    from kvsim.kernels.decoder import SequenceInput

    blocks = len(prompt) // decoder.block_size + 1
    table = torch.arange(blocks, dtype=torch.int32)
    for chunk, past in ((prompt[:-1], 0), (prompt[-1:], len(prompt) - 1)):
        decoder.step([SequenceInput(chunk, past, table)])


def synchronizer(device: torch.device) -> Callable[[], object]:
    """Return what waits until a device has done all it was given."""
    import torch

    if device.type == "cuda":
        return torch.cuda.synchronize
    return torch.mps.synchronize if device.type == "mps" else int
