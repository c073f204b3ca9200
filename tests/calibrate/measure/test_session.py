"""Sessions go on after an interruption and refuse a drifting clock."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from kvsim.calibrate.calibration import Wish, plan_calibration
from kvsim.calibrate.measure.anchor import CPU_RULE, AnchorRule
from kvsim.calibrate.measure.points import Limits, grid
from kvsim.calibrate.measure.raw_points import RawPoints
from kvsim.calibrate.measure.session import Rules, run_session
from kvsim.calibrate.measure.timing import TimingRule
from tests.calibrate.measure.conftest import known_point_us

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.calibrate.measure.points import Point
    from tests.calibrate.measure.conftest import FakeDevice

POINTS = grid(Limits())
ANCHOR = AnchorRule(TimingRule(3, 0.0, min_repeats=3), every=1, max_drift=0.1)
"""Reads quickly, as the slow stretches here are short."""
RULES = Rules(TimingRule(5, 2.0), ANCHOR)
SETUP = {"model": "m", "device": {"product": "fake"}}


def session(device: FakeDevice, path: Path, points: list[Point] = POINTS) -> RawPoints:
    raw = RawPoints.opened(path, SETUP)
    run_session(points, device, device, RULES, raw)
    return raw


def medians_us(raw: RawPoints) -> dict[str, float]:
    return {key: timing.median_us for key, (_, timing) in raw.timings.items()}


def steady_us(points: list[Point] = POINTS) -> dict[str, float]:
    """What the points take where nothing is ever slow."""
    return {point.key: known_point_us(point) for point in points}


def discarded(raw: RawPoints) -> dict[str, int]:
    """Repeats that did not count, of the points that have some."""
    return {key: t.discarded for key, (_, t) in raw.timings.items() if t.discarded}


def test_every_point_is_measured_once(device: FakeDevice, tmp_path: Path) -> None:
    raw = session(device, tmp_path / "p")
    assert list(raw.timings) == [point.key for point in POINTS] == device.measured
    assert raw.anchor_us == pytest.approx(100)
    assert medians_us(raw) == pytest.approx(steady_us())
    assert not discarded(raw)


def test_ctrl_c_costs_one_point_at_most(device: FakeDevice, tmp_path: Path) -> None:
    path = tmp_path / "p"
    stop_at = POINTS[15].key

    class Impatient(type(device)):  # type: ignore[misc]  # a class made in conftest
        def workload(self, point: Point) -> object:
            if point.key == stop_at:
                raise KeyboardInterrupt
            return super().workload(point)

    with pytest.raises(KeyboardInterrupt):
        session(Impatient(), path)
    assert len(json.loads(path.read_text())["points"]) == 15
    raw = session(device, path)
    assert device.measured == [point.key for point in POINTS[15:]]
    assert list(raw.timings) == [point.key for point in POINTS]
    assert list(tmp_path.iterdir()) == [path], "no half-written file is left"


def test_only_points_that_were_not_there_are_told(device: FakeDevice, tmp_path: Path) -> None:
    """They are what takes time: the time left would be wrong with the others."""
    session(device, tmp_path / "p", POINTS[:6])
    seen: list[Point] = []
    raw = RawPoints.opened(tmp_path / "p", SETUP)
    run_session(POINTS, device, device, RULES, raw, on_point=seen.append)
    assert seen == POINTS[6:]


def test_stretches_in_which_all_is_slow_leave_no_trace(device: FakeDevice, tmp_path: Path) -> None:
    """Every 9 ms the device takes 1.9 times as long for 2 ms: some repeats of many points."""
    device.slowness = lambda fake: 1.9 if fake.now_us % 9_000 < 2_000 else 1.0
    seen: list[Point] = []
    raw = RawPoints.opened(tmp_path / "p", SETUP)
    run_session(POINTS, device, device, RULES, raw, on_point=seen.append)
    assert len(discarded(raw)) > 5
    assert medians_us(raw) == pytest.approx(steady_us())
    assert all(len(timing.times_us) == 5 for _, timing in raw.timings.values())
    assert seen == POINTS, "each is told once"
    again = RawPoints.opened(tmp_path / "p", SETUP)
    assert discarded(again) == discarded(raw), "the file has them"


def test_repeats_that_do_not_count_are_not_in_the_budget(
    device: FakeDevice, tmp_path: Path
) -> None:
    """Slow for a second, which is all that the point may take: it has its repeats afterwards."""
    raw = RawPoints.opened(tmp_path / "p", SETUP)
    device.slowness = lambda fake: 1.9 if 1_000_500 < fake.now_us < 2_000_500 else 1.0
    run_session(POINTS[:1], device, device, Rules(TimingRule(5, 1.0), ANCHOR), raw)
    ((_, timing),) = raw.timings.values()
    assert timing.times_us == pytest.approx([200.1] * 5)
    assert timing.discarded > 1000


def test_a_machine_that_stays_slow_is_refused_and_keeps_what_came_before(
    device: FakeDevice, tmp_path: Path
) -> None:
    device.slowness = lambda fake: 1.2 if len(fake.measured) > 6 else 1.0
    key = re.escape(POINTS[6].key)
    with pytest.raises(
        ValueError, match=rf"(\d+) of \1 repeats of {key} .*\+20 %.*allowed: 10 %.*--max-drift"
    ):
        session(device, tmp_path / "p")
    assert len(RawPoints.opened(tmp_path / "p", SETUP).timings) == 6


def test_a_second_session_on_a_slower_machine_is_refused(
    device: FakeDevice, tmp_path: Path
) -> None:
    """The reference is in the file: two sessions' points are of one machine."""
    session(device, tmp_path / "p", POINTS[:6])
    device.slowness = lambda _: 1.3
    with pytest.raises(ValueError, match=r"the clock drifts: .*\+30 %"):
        session(device, tmp_path / "p")


def test_a_drift_beyond_what_is_allowed_never_reads_as_allowed(
    device: FakeDevice, tmp_path: Path
) -> None:
    session(device, tmp_path / "p", POINTS[:6])
    device.slowness = lambda _: 1.104
    with pytest.raises(ValueError, match=r"last \+11 % \(allowed: 10 %\)"):
        session(device, tmp_path / "p")


@pytest.mark.parametrize("slow_points", [0, 4])
def test_a_start_in_a_slow_stretch_is_noticed(
    device: FakeDevice, tmp_path: Path, slow_points: int
) -> None:
    """The reference is taken anew, and points that were slow throughout are measured again."""
    device.slowness = lambda fake: 1.0 if len(fake.measured) > slow_points else 1.9
    seen: list[Point] = []
    raw = RawPoints.opened(tmp_path / "p", SETUP)
    run_session(POINTS, device, device, RULES, raw, on_point=seen.append)
    keys = [point.key for point in POINTS]
    assert raw.anchor_us == pytest.approx(100)
    assert device.measured == keys + keys[:slow_points]
    assert medians_us(raw) == pytest.approx(steady_us())
    assert seen == POINTS, "each is told once"


def test_points_of_a_slower_session_are_measured_again(device: FakeDevice, tmp_path: Path) -> None:
    device.slowness = lambda _: 1.3
    session(device, tmp_path / "p", POINTS[:6])
    device.slowness = lambda _: 1.0
    assert medians_us(session(device, tmp_path / "p")) == pytest.approx(steady_us())


def test_one_fast_call_is_no_other_reference(device: FakeDevice, tmp_path: Path) -> None:
    """Of the anchor after a repeat: that repeat is taken again, and nothing else."""
    once = [0.5]
    device.slowness = lambda fake: once.pop() if once and fake.now_us > 1_002_000 else 1.0
    raw = session(device, tmp_path / "p")
    assert raw.anchor_us == pytest.approx(100)
    assert len(device.measured) == len(POINTS)
    assert medians_us(raw) == pytest.approx(steady_us())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a file of raw points"),
        ("[]", r"not a file of raw points \(kvsim-points/2\)"),
        ('{"format": "kvsim-points/9"}', "not a file of raw points"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "p"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        RawPoints.opened(path, SETUP)


ROW = {"block": "layer", "role": "fit", "loads": {"tokens": 1}, "times_us": [2.0],
       "rotated_bytes": 1, "discarded": 0, "anchor_us": 100.0}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("setup", "x", "setup is 'x', not an object"),
        ("anchor_us", ..., "'anchor_us' is missing"),
        ("anchor_us", "100", "anchor_us is '100', not a time above 0"),
        ("anchor_us", 0, "anchor_us is 0, not a time above 0"),
        ("anchor_us", -1.5, "anchor_us is -1.5, not a time above 0"),
        ("anchor_us", 10**400, "not a time above 0"),
        ("clocks", None, "clocks is None, not a list of strings"),
        ("points", {}, "points is {}, not a list of objects"),
        ("points", [1], "points is [1], not a list of objects"),
        ("points", [ROW, {"block": "layer"}], "points[1]: 'role' is missing"),
        ("points", [ROW | {"role": ["fit"]}], "role is ['fit'], not 'fit' or 'hold-out'"),
        ("points", [ROW | {"times_us": []}], "times_us is [], not a list of times above 0"),
        ("points", [ROW | {"times_us": [1, None]}], "not a list of times above 0"),
        ("points", [ROW | {"loads": {"tokens": "1"}}], "not an object of whole numbers from 0"),
        ("points", [ROW | {"anchor_us": None}], "points[0]: anchor_us is None, not a time"),
        ("points", [ROW | {"block": "layers"}], "points[0]: block is 'layers', not one of layer"),
        ("points", [ROW | {"block": []}], "points[0]: block is [], not one of layer, small"),
        ("points", [ROW | {"block": "decode"}], "loads of decode are tokens, not batch, context"),
    ],
)
def test_a_damaged_file_is_told_in_a_sentence(
    tmp_path: Path, key: str, value: object, message: str
) -> None:
    path = tmp_path / "p"
    whole = {"format": "kvsim-points/2", "setup": SETUP, "anchor_us": 100.0, "clocks": [],
             "points": [ROW]}  # fmt: skip
    path.write_text(json.dumps(whole))
    assert len(RawPoints.opened(path, SETUP).timings) == 1
    content = {name: it for name, it in (whole | {key: value}).items() if it is not ...}
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=re.escape(message) + ".*; remove it to start anew") as at:
        RawPoints.opened(path, SETUP)
    assert str(at.value).startswith(f"{path} is damaged: ")


def test_points_of_another_calibration_are_refused(device: FakeDevice, tmp_path: Path) -> None:
    session(device, tmp_path / "p", POINTS[:1])
    with pytest.raises(ValueError, match=r"calibration \(model was '.*', now 'other'\): remove"):
        RawPoints.opened(tmp_path / "p", {**SETUP, "model": "other"})


def test_limits_are_a_part_of_the_setup(tmp_path: Path) -> None:
    """Not only how many points they leave: of 1,024 and of 1,025 tokens there are as many."""
    path = tmp_path / "p"
    one, other = (
        plan_calibration(Wish("cpu", "llama-3.1-8b", "bf16", max_step_tokens=tokens)).setup
        for tokens in (1024 + 8, 1024 + 9)
    )
    assert one["points"] == other["points"]
    RawPoints(path, one).save()
    RawPoints.opened(path, one)
    with pytest.raises(
        ValueError, match=r"calibration \(limits\.max_step_tokens was 1032, now 1033\): remove"
    ):
        RawPoints.opened(path, other)


def test_no_drift_at_all_cannot_be_asked_for() -> None:
    with pytest.raises(ValueError, match="max_drift is 0; it must be above 0"):
        replace(CPU_RULE, max_drift=0)
