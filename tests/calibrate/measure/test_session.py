"""Sessions go on after an interruption and refuse a drifting clock."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kvsim.calibrate.measure.points import Limits, grid
from kvsim.calibrate.measure.raw_points import RawPoints
from kvsim.calibrate.measure.session import GROUP_POINTS, Rules, run_session
from kvsim.calibrate.measure.timing import TimingRule

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.calibrate.measure.points import Point
    from tests.calibrate.measure.conftest import FakeDevice

POINTS = grid(Limits())
RULES = Rules(TimingRule(5, 2.0), max_drift=0.1)
SETUP = {"model": "m", "device": {"product": "fake"}}


def session(device: FakeDevice, path: Path, points: list[Point] = POINTS) -> RawPoints:
    raw = RawPoints.opened(path, SETUP)
    run_session(points, device, device, RULES, raw)
    return raw


def test_every_point_is_measured_once(device: FakeDevice, tmp_path: Path) -> None:
    raw = session(device, tmp_path / "p")
    assert list(raw.timings) == [point.key for point in POINTS] == device.measured
    assert raw.anchor_us == pytest.approx(100)
    assert len(raw.anchors_us) == -(-len(POINTS) // GROUP_POINTS)


def test_ctrl_c_costs_one_group_at_most(device: FakeDevice, tmp_path: Path) -> None:
    path = tmp_path / "p"
    stop_at = POINTS[2 * GROUP_POINTS + 3].key

    class Impatient(type(device)):  # type: ignore[misc]  # a class made in conftest
        def workload(self, point: Point) -> object:
            if point.key == stop_at:
                raise KeyboardInterrupt
            return super().workload(point)

    with pytest.raises(KeyboardInterrupt):
        session(Impatient(), path)
    assert len(json.loads(path.read_text())["points"]) == 2 * GROUP_POINTS
    raw = session(device, path)
    assert device.measured == [point.key for point in POINTS[2 * GROUP_POINTS :]]
    assert list(raw.timings) == [point.key for point in POINTS]
    assert list(tmp_path.iterdir()) == [path], "no half-written file is left"


def test_only_points_that_were_not_there_are_told(device: FakeDevice, tmp_path: Path) -> None:
    """They are what takes time: the time left would be wrong with the others."""
    session(device, tmp_path / "p", POINTS[:GROUP_POINTS])
    seen: list[Point] = []
    raw = RawPoints.opened(tmp_path / "p", SETUP)
    run_session(POINTS, device, device, RULES, raw, on_point=seen.append)
    assert seen == POINTS[GROUP_POINTS:]


def test_a_group_is_measured_again_after_a_passing_drift(
    device: FakeDevice, tmp_path: Path
) -> None:
    """The device is slow for a while during the second group, and its points with it."""
    keys = [point.key for point in POINTS]
    device.slowness = lambda fake: (
        1.5 if GROUP_POINTS < len(fake.measured) <= 2 * GROUP_POINTS else 1.0
    )
    seen: list[Point] = []
    raw = RawPoints.opened(tmp_path / "p", SETUP)
    run_session(POINTS, device, device, RULES, raw, on_point=seen.append)
    second = keys[GROUP_POINTS : 2 * GROUP_POINTS]
    assert device.measured == keys[: 2 * GROUP_POINTS] + second + keys[2 * GROUP_POINTS :]
    assert seen == POINTS, "each is told once"
    steady = session(type(device)(), tmp_path / "steady")
    medians = {key: timing.median_us for key, (_, timing) in raw.timings.items()}
    assert medians == pytest.approx(
        {key: timing.median_us for key, (_, timing) in steady.timings.items()}
    )


def test_a_lasting_drift_is_refused_and_keeps_what_came_before(
    device: FakeDevice, tmp_path: Path
) -> None:
    device.slowness = lambda fake: 1.2 if len(fake.measured) > GROUP_POINTS else 1.0
    with pytest.raises(ValueError, match=r"layer, small.*\+20 %.*allowed: 10 %.*--max-drift"):
        session(device, tmp_path / "p")
    assert len(RawPoints.opened(tmp_path / "p", SETUP).timings) == GROUP_POINTS


def test_a_device_that_was_slow_at_the_very_first_is_not_refused(
    device: FakeDevice, tmp_path: Path
) -> None:
    """No point is there yet, so the reference is taken anew."""
    device.slowness = lambda fake: 1.0 if fake.measured else 2.0
    assert session(device, tmp_path / "p").anchor_us == pytest.approx(100)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a file of raw points"),
        ("[]", r"not a file of raw points \(kvsim-points/1\)"),
        ('{"format": "kvsim-points/9"}', "not a file of raw points"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "p"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        RawPoints.opened(path, SETUP)


def test_points_of_another_calibration_are_refused(device: FakeDevice, tmp_path: Path) -> None:
    session(device, tmp_path / "p", POINTS[:1])
    with pytest.raises(ValueError, match=r"another calibration \(model differ\): remove it"):
        RawPoints.opened(tmp_path / "p", {**SETUP, "model": "other"})


def test_no_drift_at_all_cannot_be_asked_for() -> None:
    with pytest.raises(ValueError, match="max_drift is 0; it must be above 0"):
        Rules(TimingRule(5, 2.0), max_drift=0)
