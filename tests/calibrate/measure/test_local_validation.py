"""The real decoder under our scheduler writes what it would write alone."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
import torch

from kvsim.calibrate.measure.anchor import CPU_RULE, Anchor
from kvsim.calibrate.validate import local_decoder
from kvsim.calibrate.validate.local_decoder import LocalDecoder
from kvsim.calibrate.validate.local_validation import LocalTrace, validate_local
from kvsim.kernels.decoder import Decoder
from kvsim.kernels.shape import DecoderShape
from kvsim.sim.cost.step_cost import LinearCost
from tests.engine_run import run

if TYPE_CHECKING:
    from tests.calibrate.measure.conftest import FakeDevice

SHAPE = DecoderShape(2, 48, 6, 2, 16, 96, 211)
LOCAL = LocalTrace(
    num_requests=8,
    prompt_tokens=(5, 30),
    output_tokens=(2, 12),
    span_s=0.02,
    max_num_batched_tokens=16,
    max_num_seqs=5,
    pool_share=0.25,
    block_size=4,
)
COST = LinearCost(base_ps=3 * 10**9)


def made(local: LocalTrace = LOCAL) -> tuple[Decoder, list[torch.Tensor]]:
    trace = local.trace()
    blocks = local.config(trace).num_gpu_blocks
    decoder = Decoder(
        SHAPE,
        num_blocks=blocks,
        block_size=local.block_size,
        device=torch.device("cpu"),
        dtype=torch.float32,
    )
    for cache in decoder.caches:
        cache.fill_(float("nan"))
    rng = torch.Generator().manual_seed(1)
    return decoder, [torch.randint(0, 211, (int(n),), generator=rng) for n in trace.prompt_tokens]


def test_chunks_blocks_and_preemptions_do_not_change_a_word() -> None:
    decoder, prompts = made()
    trace = LOCAL.trace()
    config = LOCAL.config(trace)
    listener = LocalDecoder(decoder, prompts)
    result = run(trace, config, COST, max_tokens=trace.output_tokens, listener=listener, audit=True)
    assert result.recorder.num_preemptions > 0
    assert len(listener.durations_ps) == result.recorder.num_steps
    for index, prompt in enumerate(prompts):
        text = prompt
        for _ in range(int(trace.output_tokens[index])):
            text = torch.cat((text, decoder.naive_logits(text).argmax().view(1)))
        assert torch.equal(listener.texts[index], text)


def test_the_stepper_s_clock_is_the_device_s() -> None:
    """A clock that ticks 5 ms at each look: every step lasts 5 ms, whatever the cost says."""
    decoder, prompts = made()
    local = replace(LOCAL, span_s=0.0)
    trace = local.trace()
    ticks = count(0, 5 * 10**6)
    listener = LocalDecoder(decoder, prompts, clock_ns=lambda: next(ticks))
    recorder = run(
        trace, local.config(trace), COST, max_tokens=trace.output_tokens, listener=listener
    ).recorder
    assert set(listener.durations_ps) == {5 * 10**9}
    assert recorder.end_ps == recorder.num_steps * 5 * 10**9
    assert set(listener.expected_ps) == {3 * 10**9}


def anchor_of(device: FakeDevice) -> Anchor:
    return Anchor(device.anchor(), device, CPU_RULE)


def test_both_sides_are_told(device: FakeDevice) -> None:
    decoder, _ = made()
    result = validate_local(LOCAL, decoder, COST, anchor_of(device), vocab_size=211)
    assert result.real.num_preemptions > 0
    assert result.simulated.step_s == pytest.approx(0.003)
    assert result.real.step_s == pytest.approx(
        sum(result.durations_ps) / len(result.durations_ps) / 1e12
    )
    errors = result.step_errors()
    assert errors is not None
    assert errors.mean == pytest.approx(0.003 / result.real.step_s - 1)
    assert errors == result.step_errors(steady_only=True)
    assert all(result.steady)
    assert result.num_outside == 0
    assert min(result.real.tpot_s, result.real.ttft_s, result.real.e2e_s) > 0


def slow_readings(device: FakeDevice, *slow: int) -> Anchor:
    """Anchor whose readings of these numbers are slow."""
    anchor = anchor_of(device)
    plain_read, readings = anchor.read_us, count()

    def read_us() -> float:
        slowness = 1.9 if next(readings) in slow else 1.0
        device.slowness = lambda _: slowness
        return plain_read()

    anchor.read_us = read_us  # type: ignore[method-assign]
    return anchor


def test_steps_of_a_slower_machine_are_run_again(device: FakeDevice) -> None:
    """Readings 0 and 1 are of the first step's first run, 4 and 5 of the second one's, ..."""
    decoder, prompts = made()
    anchor = slow_readings(device, 1, 5, 6)
    anchor.take_reference()
    listener = LocalDecoder(decoder, list(prompts), anchor=anchor)
    trace = LOCAL.trace()
    run(trace, LOCAL.config(trace), COST, max_tokens=trace.output_tokens, listener=listener)
    assert listener.num_again == 3
    assert all(anchor.is_steady(us) for us in listener.anchors_us)
    assert len(listener.durations_ps) == len(listener.expected_ps) == len(listener.anchors_us)
    decoder, _ = made()
    once = LocalDecoder(decoder, list(prompts))
    run(trace, LOCAL.config(trace), COST, max_tokens=trace.output_tokens, listener=once)
    for text, same in zip(listener.texts, once.texts, strict=True):
        assert text.tolist() == same.tolist(), "what a step writes twice is the same"


def test_after_the_patience_slow_steps_are_marked(
    device: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start is slow, which reading 6 tells, and so is reading 9."""
    monkeypatch.setattr(local_decoder, "PATIENCE_S", -1.0)
    decoder, _ = made()
    anchor = slow_readings(device, *range(6), 9)
    device.slowness = lambda _: 1.9
    result = validate_local(LOCAL, decoder, COST, anchor, vocab_size=211)
    assert anchor.reference_us == pytest.approx(100)
    assert result.num_again == 0
    assert [i for i, steady in enumerate(result.steady) if not steady] == [0, 1, 2, 4]
    kept = [ps for ps, steady in zip(result.durations_ps, result.steady, strict=True) if steady]
    errors = result.step_errors(steady_only=True)
    assert errors is not None
    assert errors.mean == pytest.approx(3e9 * len(kept) / sum(kept) - 1)
    nothing = replace(result, steady=(False,) * len(result.steady))
    assert nothing.step_errors(steady_only=True) is None
    assert nothing.step_errors() == result.step_errors()


def test_a_pool_for_all_preempts_nobody(device: FakeDevice) -> None:
    local = replace(LOCAL, pool_share=2.0)
    decoder, _ = made(local)
    result = validate_local(local, decoder, COST, anchor_of(device), vocab_size=211)
    assert (result.real.num_preemptions, result.simulated.num_preemptions) == (0, 0)
