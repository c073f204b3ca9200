"""A fake device: its clock moves only when it works, and its costs are known."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kvsim.calibrate.calibration import Calibration, Wish, plan_calibration
from kvsim.calibrate.measure.timing import Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.calibrate.measure.points import Point

ANCHOR_US = 100.0


def known_us(block: str, **loads: int) -> float:
    """Truth in us: the form of the step cost with round numbers."""
    affine = {"small": (8, 0.02), "host": (60, 3)}
    if block in affine:
        base, slope = affine[block]
        return base + slope * next(iter(loads.values()))
    if block == "layer":
        tokens = loads["tokens"]
        return max(200 + 0.1 * tokens, 150 + 0.5 * tokens)
    if block == "head":
        batch = loads["batch"]
        return max(500 + 2 * batch, 300 + 6 * batch)
    if block in ("decode", "layout", "flex"):
        batch, context = loads["batch"], loads["context"]
        factor = {0: 0.8, 8: 1.2}.get(loads.get("block_size", 16), 1.0) * (
            0.9 if block == "flex" else 1
        )
        return factor * (12 + 0.2 * batch + 0.002 * batch * context)
    if block in ("prefill", "mixed"):
        chunk, past = loads["chunk"], loads["past"]
        area = chunk * past + chunk * chunk / 2
        prefill = max(10 + 0.004 * (chunk + past), 4 + 0.03 * chunk + 5e-5 * area)
        decodes = loads.get("decodes", 0)
        return prefill + decodes * (0.3 + 0.005 * loads.get("context", 0))
    rate = 0.001 if loads["contiguous"] else 0.004
    return 5 + rate * 1000 * loads["blocks"]


def known_point_us(point: Point) -> float:
    """Truth of a point, us."""
    return known_us(point.block, **point.loads)


class FakeDevice:
    """Bench and timer in one.

    ``slowness`` multiplies every duration, the anchor's too, by what was done so far; ``cost_us``
    is what a point takes otherwise.
    """

    name = "fake"

    def __init__(self) -> None:
        self.now_us = 0.0
        self.num_calls = 0
        self.measured: list[str] = []
        self.slowness: Callable[[FakeDevice], float] = lambda _: 1.0
        self.cost_us: Callable[[Point], float] = known_point_us
        self._noise = random.Random(0)
        self.noise = 0.0

    def workload(self, point: Point) -> Workload:
        self.measured.append(point.key)
        return Workload([self._call(self.cost_us(point))] * 3, 0)

    def anchor(self) -> Workload:
        return Workload([self._call(ANCHOR_US)], 0)

    def _call(self, us: float) -> Callable[[], None]:
        def call() -> None:
            self.num_calls += 1
            jitter = 1 + self.noise * self._noise.uniform(-1, 1)
            self.now_us += us * self.slowness(self) * jitter

        return call

    def now_s(self) -> float:
        return self.now_us / 1e6

    def runners(self, workload: Workload) -> list[Callable[[], float]]:
        workload.calls[0]()

        def runner(call: Callable[[], object]) -> Callable[[], float]:
            def run() -> float:
                before_us = self.now_us
                call()
                return self.now_us - before_us

            return run

        return [runner(call) for call in workload.calls]


@pytest.fixture
def device() -> FakeDevice:
    """Device whose clock stands still between calls."""
    return FakeDevice()


@pytest.fixture
def calibration(device: FakeDevice) -> Calibration:
    """Quick calibration of an 8B-class model on the fake device."""
    planned = plan_calibration(Wish("cpu", "llama-3.1-8b", "bf16", quick=True))
    return replace(planned, bench=device, timer=device)
