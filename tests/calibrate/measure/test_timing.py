"""Repeats, budget, median and spread, on clocks that are made up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kvsim.calibrate.measure.points import FIT, Point
from kvsim.calibrate.measure.timing import HostTimer, Timing, TimingRule, Workload, measure

if TYPE_CHECKING:
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
