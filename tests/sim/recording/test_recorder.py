"""The recorder's windows and stretches of waiting, against sums over every event."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.sim.recording.memory_integrals import MEMORY
from kvsim.sim.recording.recorder import (
    FINISHED,
    PREEMPTIONS,
    REFUSED,
    SWAPPED_IN,
    SWAPPED_OUT,
    UNFINISHED,
    Recorder,
)
from kvsim.sim.recording.time_windows import FIRST_WIDTH_PS, MAX_WINDOWS
from kvsim.sim.recording.waiting_clock import CAUSES, MAX_FLIPS

SHORT = st.integers(0, 3 * FIRST_WIDTH_PS)
LONG = st.integers(0, 40 * MAX_WINDOWS * FIRST_WIDTH_PS)  # the width doubles, several times at once
SLOTS = st.integers(0, 50)


@dataclass
class Event:
    """Time since the event before, memory until this one, and how the queue stands after it."""

    ps: int
    memory: tuple[int, int, int, int, int]  # blank, cached, empty, duplicate, running
    num_waiting: int
    cause: str
    never: tuple[int, int] | None  # (slots, how many events ago the block was taken)
    num_out: int  # blocks of a victim that goes to the host


EVENTS = st.lists(
    st.builds(
        Event,
        ps=st.one_of(SHORT, SHORT, SHORT, LONG),
        memory=st.tuples(SLOTS, SLOTS, SLOTS, SLOTS, SLOTS),
        num_waiting=st.integers(0, 3),
        cause=st.sampled_from(CAUSES),
        num_out=st.integers(0, 2),
        never=st.one_of(st.none(), st.tuples(SLOTS, st.integers(1, 5))),
    ),
    max_size=25,
)


class Brute:
    """Every amount with its stretch of time, summed up only at the end."""

    def __init__(self) -> None:
        self.stretches: list[tuple[str, int, int, int]] = []  # name, from, to, amount
        self.counts: list[tuple[str, int, int]] = []  # name, when, amount
        self.waiting: list[tuple[int, int]] = []  # stretches in which requests waited

    def windows(self, name: str, width_ps: int, num: int) -> list[int]:
        sums = [0] * num
        for other, start_ps, end_ps, amount in self.stretches:
            if other == name and end_ps > start_ps:
                for window in range(start_ps // width_ps, (end_ps - 1) // width_ps + 1):
                    upto_ps = min(end_ps, (window + 1) * width_ps)
                    sums[window] += amount * (upto_ps - max(start_ps, window * width_ps))
        for other, at_ps, amount in self.counts:
            if other == name:
                sums[at_ps // width_ps] += amount
        return sums

    def total(self, name: str) -> int:
        return sum(a * (end - start) for other, start, end, a in self.stretches if other == name)

    def peak(self, name: str) -> int:
        amounts = (a for other, start, end, a in self.stretches if other == name and end > start)
        return max(amounts, default=0)

    def while_waiting(self, name: str) -> int:
        return sum(
            amount * max(min(end, until) - max(start, since), 0)
            for other, start, end, amount in self.stretches
            for since, until in self.waiting
            if other == name
        )


def replayed(events: list[Event]) -> tuple[Recorder, Brute]:
    recorder, brute = Recorder(1), Brute()
    times = [0]
    num_waiting, cause = 0, CAUSES[0]
    for event in events:
        start_ps, now_ps = times[-1], times[-1] + event.ps
        recorder.interval(start_ps, now_ps, *event.memory)
        names = ("blank", "cached", "empty", "duplicate", "running")
        for name, amount in zip(names, event.memory, strict=True):
            brute.stretches.append((name, start_ps, now_ps, amount))
        brute.stretches.append(("window", start_ps, now_ps, 1))
        brute.stretches.append((cause, start_ps, now_ps, num_waiting))
        if num_waiting:
            brute.waiting.append((start_ps, now_ps))
        times.append(now_ps)
        if event.never is not None:
            slots, ago = event.never
            taken_ps = times[max(len(times) - 1 - ago, 0)]
            recorder.never(taken_ps, now_ps, slots)
            brute.stretches.append(("never", taken_ps, now_ps, slots))
        if event.num_out:
            recorder.swapped_out(0, now_ps, event.num_out)
            recorder.swapped_in(0, now_ps, event.num_out)
            brute.counts += [(PREEMPTIONS, now_ps, 1)]
            brute.counts += [(name, now_ps, event.num_out) for name in (SWAPPED_OUT, SWAPPED_IN)]
        num_waiting, cause = event.num_waiting, event.cause
        recorder.queue(now_ps, num_waiting, cause)
        recorder.set_waiting(now_ps, num_waiting > 0)
    return recorder, brute


@given(EVENTS)
def test_windows_against_every_event(events: list[Event]) -> None:
    recorder, brute = replayed(events)
    width_ps = recorder.width_ps
    end_ps = sum(event.ps for event in events)
    assert recorder.end_ps == end_ps
    assert end_ps <= width_ps * MAX_WINDOWS
    assert width_ps == FIRST_WIDTH_PS or end_ps >= width_ps * MAX_WINDOWS // 2
    for name, values in recorder.windows.items():
        assert values == brute.windows(name, width_ps, len(values)), name
    for name in MEMORY:
        assert recorder.while_waiting[name] == brute.while_waiting(name), name
    for cause in CAUSES:
        assert recorder.waited_ps[cause] == brute.total(cause)
    num_out = sum(event.num_out for event in events)
    assert recorder.num_preemptions == recorder.num_swaps == sum(e.num_out > 0 for e in events)
    assert recorder.swapped_out_blocks == recorder.swapped_in_blocks == num_out
    assert recorder.peak_running == brute.peak("running")


def test_windows_double_when_a_run_outgrows_them() -> None:
    recorder = Recorder(0)
    recorder.interval(0, FIRST_WIDTH_PS * MAX_WINDOWS, 1, 0, 0, 0, 0)
    assert (recorder.width_ps, len(recorder.windows["blank"])) == (FIRST_WIDTH_PS, MAX_WINDOWS)
    end_ps = recorder.end_ps
    recorder.interval(end_ps, end_ps + 1, 5, 0, 0, 0, 0)
    assert recorder.width_ps == 2 * FIRST_WIDTH_PS
    blank = recorder.windows["blank"]
    assert len(blank) == MAX_WINDOWS
    assert blank[:512] == [2 * FIRST_WIDTH_PS] * 512
    assert blank[512:] == [5] + [0] * 511


def test_an_interval_of_no_length_is_nothing() -> None:
    recorder = Recorder(0)
    recorder.interval(5, 5, 1, 1, 1, 1, 1)
    assert recorder.end_ps == 0
    assert sum(recorder.windows["window"]) == 0


def test_a_request_from_first_call_to_end() -> None:
    recorder = Recorder(3)
    recorder.admitted(1, 100, 32, resumed=False)
    recorder.preempted(1, 200, 40)
    recorder.admitted(1, 300, 16, resumed=True)
    recorder.stall(1, 550, 250)
    recorder.stall(1, 650, 100)
    recorder.finished(1, 900, 7)
    recorder.refused(2, "needs 9 blocks, the pool has 7")
    assert list(recorder.status) == [UNFINISHED, FINISHED, REFUSED]
    assert list(recorder.first_scheduled_ps) == [-1, 100, -1]
    assert list(recorder.hit_tokens) == [0, 32, 0]
    assert list(recorder.resume_hit_tokens) == [0, 16, 0]
    assert list(recorder.lost_tokens) == [0, 40, 0]
    assert list(recorder.preemptions) == [0, 1, 0]
    assert list(recorder.stall_ps) == [0, 350, 0]
    assert list(recorder.finish_ps) == [-1, 900, -1]
    assert list(recorder.output_tokens) == [0, 7, 0]
    assert (recorder.num_stalls, recorder.longest_stall_ps, recorder.num_preemptions) == (2, 250, 1)
    assert (recorder.gaps.num, recorder.gaps.sum_ps) == (2, 350)


def test_reasons_are_kept_for_the_first_refused_of_the_trace() -> None:
    recorder = Recorder(50)
    for index in reversed(range(30)):
        recorder.refused(index, f"reason {index}")
    assert recorder.refusals == {index: f"reason {index}" for index in range(20)}


def test_memory_older_than_many_stretches_of_waiting() -> None:
    for max_flips in (None, MAX_FLIPS):
        recorder = Recorder(0, max_flips=max_flips)
        for flip in range(MAX_FLIPS + 1):
            recorder.set_waiting(10 * flip, flip % 2 == 0)
        end_ps = 10 * (MAX_FLIPS + 1)
        if max_flips is None:
            recorder.never(0, end_ps, slots=3)
            assert recorder.while_waiting["never"] == 3 * 10 * (MAX_FLIPS // 2 + 1)
        else:
            with pytest.raises(AssertionError, match="older than the kept stretches"):
                recorder.never(0, end_ps, slots=3)
