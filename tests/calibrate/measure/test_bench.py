"""The real kernels behind every point run, on buffers that rotate beyond the cache."""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
import torch

from kvsim.calibrate.measure.bench import KernelBench
from kvsim.calibrate.measure.buffers import Buffers
from kvsim.calibrate.measure.device import facts_of, find_device
from kvsim.calibrate.measure.flex_probe import flex_missing
from kvsim.calibrate.measure.points import Limits, Point, copies, flex, grid, hold_outs, layouts
from kvsim.calibrate.measure.timing import HostTimer, Workload, timer_of
from kvsim.kernels import decode_attention
from kvsim.kernels.shape import DecoderShape

if TYPE_CHECKING:
    from collections.abc import Callable

SHAPE = DecoderShape(2, 64, 4, 2, 16, 96, 211)
LIMITS = Limits(max_batch=6, max_context=512, max_step_tokens=128)
POINTS = [
    *grid(LIMITS),
    *layouts(LIMITS),
    *copies(host_link=True),
    *hold_outs(LIMITS, 0),
]


@pytest.fixture(scope="module")
def bench() -> KernelBench:
    cpu = torch.device("cpu")
    return KernelBench(Buffers(SHAPE, device=cpu, dtype="fp32", block_size=16, cache_bytes=100_000))


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.key)
def test_every_point_can_be_called(bench: KernelBench, point: Point) -> None:
    workload = bench.workload(point)
    for call in (*workload.calls[:2], workload.calls[-1]):
        answer = call()
        if isinstance(answer, torch.Tensor):
            assert torch.isfinite(answer.float()).all()
            assert answer.float().abs().sum() > 0 or point.block == "head"
    if point.block not in ("small", "host", "to_host", "from_host"):
        full = len(workload.calls) == 128
        assert workload.rotated_bytes >= 2 * 100_000 or full


CAPTURED = ("layer", "small", "decode", "prefill", "mixed", "head", "layout", "copy")


@pytest.mark.parametrize(
    "point", [point for point in POINTS if point.block in CAPTURED], ids=lambda point: point.key
)
def test_what_a_graph_shall_hold_never_asks_the_device_for_a_number(
    point: Point, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On torch's device without numbers, reading one on the host is an error."""
    monkeypatch.setattr(decode_attention, "implementation", lambda *_: "triton_split_k")
    fake = ModuleType("kvsim.kernels.triton_decode")
    fake.triton_split_k = lambda query, *_, **__: torch.empty_like(query)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    meta = torch.device("meta")
    buffers = Buffers(SHAPE, device=meta, dtype="fp32", block_size=16, cache_bytes=100_000)
    workload = KernelBench(buffers).workload(point)
    assert workload.capturable
    workload.calls[-1]()


def test_calls_read_different_buffers(bench: KernelBench) -> None:
    """Two buffers hold the same numbers at other places, so their answers differ."""
    one, two = bench.workload(Point("decode", "fit", {"batch": 2, "context": 64})).calls[:2]
    assert not torch.equal(one(), two())  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_reads_the_same_load_as_sdpa(bench: KernelBench) -> None:
    loads = {"batch": 2, "context": 64}
    (call, *_), sdpa = (
        bench.workload(Point("flex", "fit", loads)).calls,
        bench.workload(Point("layout", "fit", {"block_size": 0, **loads})),
    )
    answer, other = call(), sdpa.calls[0]()
    assert isinstance(answer, torch.Tensor)
    assert isinstance(other, torch.Tensor)
    assert answer.shape == other.shape
    assert torch.isfinite(answer).all()


def test_why_flex_attention_is_not_measured_is_said(bench: KernelBench) -> None:
    class Refusing(HostTimer):
        def runners(self, workload: Workload) -> list[Callable[[], float]]:
            raise RuntimeError(f"no compiler for {len(workload.calls)} calls\nand a long trace")

    class Idle(HostTimer):
        def runners(self, workload: Workload) -> list[Callable[[], float]]:
            return [lambda: float(len(workload.calls))]

    point, cuda = flex(LIMITS), torch.device("cuda")
    assert flex_missing(point, bench, Idle(), cuda) == ""
    assert "without CUDA" in flex_missing(point, bench, Idle(), torch.device("cpu"))
    said = flex_missing(point, bench, Refusing(), cuda)
    assert re.fullmatch(r"RuntimeError: no compiler for \d+ calls", said)


def test_a_layer_computes_what_the_decoder_does_but_attention(bench: KernelBench) -> None:
    (*_, call) = bench.workload(Point("layer", "fit", {"tokens": 5})).calls
    answer = call()
    assert isinstance(answer, torch.Tensor)
    assert answer.shape == (5, 64)


def test_the_anchor_allocates_nothing(bench: KernelBench) -> None:
    """Allocating would take page faults in some processes, and look like another clock."""
    (call,) = bench.anchor().calls
    assert call() is call()


def test_the_cpu_is_always_there() -> None:
    device = find_device("cpu")
    facts = facts_of(device)
    assert facts.kind == "cpu"
    assert facts.cache_bytes >= 1 << 18
    assert facts.total_bytes > facts.cache_bytes
    assert {"python", "torch"} <= set(facts.versions)
    assert timer_of(device).name == "perf_counter"


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is there")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="device 'cuda' is not there; torch sees: cpu"):
        find_device("cuda")
