"""Readings end early on a steady machine, and a reference is that of the fast one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kvsim.calibrate.measure.anchor import CPU_RULE, GPU_RULE, Anchor, AnchorRule
from kvsim.calibrate.measure.points import FIT, Point
from kvsim.calibrate.measure.raw_points import RawPoints
from kvsim.calibrate.measure.session import Rules, run_session
from kvsim.calibrate.measure.timing import TimingRule

if TYPE_CHECKING:
    from pathlib import Path

    from tests.calibrate.measure.conftest import FakeDevice


def anchor_of(device: FakeDevice, rule: AnchorRule = CPU_RULE) -> Anchor:
    anchor = Anchor(device.anchor(), device, rule)
    anchor.take_reference()
    return anchor


def test_a_reference_is_fast_though_most_of_its_second_was_slow(device: FakeDevice) -> None:
    device.slowness = lambda fake: 1.9 if fake.now_us < 700_000 else 1.0
    assert anchor_of(device).reference_us == pytest.approx(100)


def test_a_steady_machine_is_read_with_one_call_and_a_slow_one_with_all(
    device: FakeDevice,
) -> None:
    anchor = anchor_of(device)
    for slowness, calls in ((1.0, 1), (1.09, 1), (1.9, 12)):
        device.slowness = lambda _, slowness=slowness: slowness  # type: ignore[misc]
        before = device.num_calls
        us = anchor.read_us()
        assert us == pytest.approx(100 * slowness)
        assert device.num_calls - before == calls
        assert anchor.is_steady(us) == (calls == 1)


def test_one_interrupted_call_is_no_slower_machine(device: FakeDevice) -> None:
    anchor = anchor_of(device)
    interrupted = [5.0]
    device.slowness = lambda _: interrupted.pop() if interrupted else 1.0
    assert anchor.read_us() == pytest.approx(100)


@pytest.mark.parametrize(("rule", "steady"), [(CPU_RULE, False), (GPU_RULE, True)])
def test_only_a_gpu_is_given_time_to_come_back(
    device: FakeDevice, rule: AnchorRule, steady: bool
) -> None:
    """Large products lower its clock for a while, and that is their own cost."""
    anchor = anchor_of(device, rule)
    until_us = device.now_us + 50_000
    device.slowness = lambda fake: 1.3 if fake.now_us < until_us else 1.0
    assert anchor.is_steady(anchor.read_us()) == steady


def test_five_repeats_share_their_anchors_on_a_gpu(device: FakeDevice, tmp_path: Path) -> None:
    """Slow for half a second, which two readings last, so two times five repeats are lost."""
    raw = RawPoints(tmp_path / "p", {})
    rules = Rules(TimingRule(20, 0.0, min_repeats=20), GPU_RULE)
    device.slowness = lambda fake: 1.9 if 1_000_500 < fake.now_us < 1_500_500 else 1.0
    run_session([Point("layer", FIT, {"tokens": 1})], device, device, rules, raw)
    ((_, timing),) = raw.timings.values()
    assert timing.times_us == pytest.approx([200.1] * 20)
    assert timing.discarded == 10
