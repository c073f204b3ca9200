"""Repeats, budget, median and spread, on clocks that are made up."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import torch

from kvsim.calibrate.measure.points import FIT, Point
from kvsim.calibrate.measure.timing import (
    CudaTimer,
    HostTimer,
    Timing,
    TimingRule,
    Workload,
    measure,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.calibrate.measure.conftest import FakeDevice

HEAD = Point("head", FIT, {"batch": 50})  # 600 us


@pytest.mark.parametrize(
    ("rule", "repeats"),
    [
        (TimingRule(5, 2.0), 5),
        (TimingRule(5, 0.0021), 3),  # the warm-up takes 0.6 ms of 2.1
        (TimingRule(5, 0.0), 2),
        (TimingRule(20, 0.0, min_repeats=20), 20),
    ],
)
def test_repeats_end_with_the_budget(device: FakeDevice, rule: TimingRule, repeats: int) -> None:
    timing = measure(device.workload(HEAD), device, rule)
    assert timing.times_us == pytest.approx([600.0] * repeats)
    assert device.num_calls == repeats + 1


def test_the_median_and_the_quartiles() -> None:
    timing = Timing((10.0, 11.0, 12.0, 13.0, 90.0), 0)
    assert timing.median_us == 12
    assert timing.spread == pytest.approx((51.5 - 10.5) / 12)
    assert Timing((915.0, 729.0, 1006.0), 0).spread == pytest.approx((1006 - 729) / 915)
    assert Timing((2.0, 4.0), 0).spread == pytest.approx(2 / 3)
    assert Timing((2.0,), 0).spread == 0


def test_buffers_take_turns() -> None:
    seen: list[int] = []
    calls = [lambda n=n: seen.append(n) for n in range(3)]
    timing = measure(Workload(calls, 7), HostTimer(), TimingRule(4, 60.0))
    assert seen == [0, 0, 1, 2, 0], "a warm-up, then in turn"
    assert timing.rotated_bytes == 7
    assert min(timing.times_us) > 0


class FakeGraph:
    """Holds the calls made while it captures; a replay makes them again and takes 3 ms."""

    def __init__(self, clock: list[float]) -> None:
        self.clock = clock

    def replay(self) -> None:
        self.clock[0] += 3.0


class FakeEvent:
    def __init__(self, clock: list[float]) -> None:
        self.clock = clock
        self.at_ms = 0.0

    def record(self) -> None:
        self.at_ms = self.clock[0]

    def elapsed_time(self, end: FakeEvent) -> float:
        return end.at_ms - self.at_ms


class FakeStream:
    def wait_stream(self, other: FakeStream) -> None: ...


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A device without a device: a call takes 1 ms, in a graph nothing; that is the call."""
    clock = [0.0]
    capturing = [False]

    @contextmanager
    def capture(_: FakeGraph) -> Iterator[None]:
        capturing[0] = True
        yield
        capturing[0] = False

    @contextmanager
    def on(_: FakeStream) -> Iterator[None]:
        yield

    for name, value in {
        "Stream": FakeStream,
        "current_stream": FakeStream,
        "stream": on,
        "synchronize": lambda: None,
        "CUDAGraph": lambda: FakeGraph(clock),
        "graph": capture,
        "Event": lambda enable_timing: FakeEvent(clock),
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)

    def call() -> None:
        clock[0] += 0.0 if capturing[0] else 1.0

    return call


def test_a_graph_of_all_buffers_is_timed_where_one_can_be_made(cuda: Callable[[], None]) -> None:
    (run,) = CudaTimer().runners(Workload([cuda] * 4, 0, capturable=True))
    assert run() == pytest.approx(3_000 / 4), "us of one of the four calls"
    first, *others = CudaTimer().runners(Workload([cuda] * 4, 0))
    assert first() == pytest.approx(1_000)
    assert len(others) == 3


def test_a_call_that_no_graph_can_hold_is_timed_alone_and_told(
    cuda: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: FakeGraph) -> None:
        raise RuntimeError("operation not permitted when stream is capturing\nCUDA kernel errors")

    monkeypatch.setattr(torch.cuda, "graph", refused)
    with pytest.warns(UserWarning, match="timed with its launches: operation not permitted .*ing$"):
        runners = CudaTimer().runners(Workload([cuda] * 2, 0, capturable=True))
    assert [run() for run in runners] == pytest.approx([1_000, 1_000])
