"""Sketches over time, and the bar of the panel."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

from kvsim.cli.text.colour import BEST, as_label, harmless, joined, paint, shown
from kvsim.cli.text.sparkline import compared_lines, over_time_lines, sparkline
from kvsim.cli.text.table import table, wrapped
from kvsim.cli.text.watch_panel import ASCII_GLYPHS, state_bar
from kvsim.sim.comparison.thumbnail import kv_in_use, resampled

STATES = ("token", "reserved", "internal", "external", "cached", "free")


def series(waiting: float = 0.0) -> dict[str, np.ndarray]:
    bytes_of = {"token": [10, 40], "free": [90, 60]}
    table = {f"{state}_bytes": np.array(bytes_of.get(state, [0, 0]), float) for state in STATES}
    return table | {
        "seconds": np.array([3.0, 1.0]),
        "running": np.array([2.0, 4.0]),
        "waiting": np.array([0.0, waiting]),
    }


def test_levels() -> None:
    assert sparkline([0, 1, 2, 3.5, 7, 9], 7) == "▁▂▃▅██"
    assert sparkline([0, 0], 0) == "▁▁"
    assert sparkline([0, 7], 7, "_#") == "_#"


def test_means_keep_the_area() -> None:
    assert resampled([1.0, 3.0], [1.0, 1.0], 4) == [1, 1, 3, 3]
    assert resampled([1.0, 3.0], [3.0, 1.0], 2) == [1, 2]
    values, weights = [3.0, 0.0, 5.0, 1.0], [0.2, 0.7, 0.05, 0.3]
    area = sum(value * weight for value, weight in zip(values, weights, strict=True))
    for num in (1, 3, 7, 40):
        assert sum(resampled(values, weights, num)) * 1.25 / num == pytest.approx(area)


def test_lines_of_a_run() -> None:
    lines = over_time_lines(series())
    assert lines == [
        f"{'over time':<24}{'0 s':<37}4 s  means",
        f"{'  KV in use':<24}{'▃' * 30}{'█' * 10}  up to 40 %",
        f"{'  running':<24}{'▅' * 30}{'█' * 10}  up to 4",
    ]
    assert over_time_lines(series(waiting=2.0))[-1].endswith("█  up to 2")
    assert over_time_lines({name: values[:0] for name, values in series().items()}) == []


def test_compared_runs_share_axis_and_scale() -> None:
    assert compared_lines([("a", 8.0, [0.5] * 40), ("b", 4.0, [1.0] * 40)]) == [
        f"{'KV in use':<24}{'0 s':<37}8 s  means",
        f"{'  a':<24}{'▅' * 40}  up to 50 %",
        f"{'  b':<24}{'█' * 20}  up to 100 %",
    ]
    assert compared_lines([("a", 0.0, [0.0] * 40)]) == []


def test_the_numbers_of_a_sketch() -> None:
    found = kv_in_use(series())
    assert found.seconds == 4.0
    assert found.shares == pytest.approx([0.1] * 30 + [0.4] * 10)


def test_an_encoding_without_blocks_gets_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "latin-1"))
    assert over_time_lines(series())[1] == f"{'  KV in use':<24}{':' * 30}{'#' * 10}  up to 40 %"


def test_the_bar_is_always_full() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        shares = rng.dirichlet(np.full(6, 0.3))
        states = dict(zip(STATES, shares.tolist(), strict=True))
        bar = state_bar(states, 67, ASCII_GLYPHS)
        assert len(bar) == 67
        for name, share in states.items():
            assert abs(bar.count(ASCII_GLYPHS[name]) - 67 * share) < 2


STABLE = wrapped("verdict", "stable: all", first_width=13, verdict="stable")


@pytest.mark.parametrize(
    ("line", "want"),
    [
        (STABLE[0], "\x1b[1mverdict\x1b[0m      \x1b[32mstable\x1b[0m: all"),
        (wrapped("note", "stable*")[0], f"\x1b[33mnote\x1b[0m{'':20}stable*"),
        (table([("  token", "1 %")], width=36)[0], f"  \x1b[38;5;32mtoken\x1b[0m{'':26}1 %"),
        (joined("\x1b", paint("2*", BEST), "\x01"), "\ufffd\x1b[1;32m2*\x1b[0m\ufffd"),
        (joined(as_label("a:  "), paint("", BEST), " ").rstrip(), "\x1b[1ma:\x1b[0m"),
        ("verdict  stable", "verdict  stable"),
        (as_label(""), ""),
    ],
)
def test_colours_are_where_they_were_said(
    line: str, want: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert shown(line) == want
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(line) == harmless(line)
