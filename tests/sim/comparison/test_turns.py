from __future__ import annotations

import threading
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kvsim.sim.comparison.turns import in_turns

if TYPE_CHECKING:
    from kvsim.sim.comparison.turns import Marks


def walk(log: list[str], name: str, times: list[int], marks: Marks) -> None:
    for time_ps in times:
        log.append(f"{name}{time_ps}")
        marks.passed(time_ps)
    log.append(f"{name} ends")


def test_who_is_furthest_behind_goes_on() -> None:
    log: list[str] = []
    calls = [partial(walk, log, "a", [1, 2, 9]), partial(walk, log, "b", [3, 4])]
    seen = list(in_turns(calls))
    assert log == ["a1", "b3", "a2", "a9", "b4", "b ends", "a ends"]
    assert seen == [0, 1, 2, 3, 4, 9, 9], "what all who go on have passed"


def test_results_need_no_lock() -> None:
    num = [0]

    def count(marks: Marks) -> None:
        for time_ps in range(50):
            before = num[0]
            threading.Event().wait(0.0001)  # another thread could run here
            num[0] = before + 1
            marks.passed(time_ps)

    assert len(list(in_turns([count] * 4))) == 4 * 51
    assert num == [200]


def test_an_error_stops_all_others() -> None:
    before, log = set(threading.enumerate()), list[str]()

    def fails(marks: Marks) -> None:
        marks.passed(5)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        list(in_turns([partial(walk, log, "a", [1, 7, 8]), fails]))
    assert log == ["a1", "a7"]
    assert not set(threading.enumerate()) - before


def test_who_looks_away_stops_all() -> None:
    before, log = set(threading.enumerate()), list[str]()
    calls = [partial(walk, log, name, [1, 2, 3]) for name in "ab"]
    with closing(in_turns(calls)) as turns:
        next(turns)
    assert log == ["a1"], "what has not begun never does"
    assert not set(threading.enumerate()) - before


def test_nothing_to_call() -> None:
    assert list(in_turns([])) == []
