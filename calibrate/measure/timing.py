"""How long a call takes on a device: warm-up, repeats over rotated buffers, spread.

A CPU is timed by its clock, CUDA by events around a replayed graph of all buffers in turn (or
around a call that cannot be captured), so that launches from Python do not count.
"""

from __future__ import annotations

import statistics
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

_UNCAPTURED: Final = "no CUDA graph could hold a call, which is timed with its launches: {}"


@dataclass(frozen=True, slots=True)
class Workload:
    """Calls that do the same on different buffers, so that no buffer is warm when it is read.

    ``rotated_bytes``: touched before a buffer comes round again. ``capturable``: without host
    synchronisation, so that a CUDA graph can hold it.
    """

    calls: Sequence[Callable[[], object]]
    rotated_bytes: int
    capturable: bool = False


@dataclass(frozen=True, slots=True)
class TimingRule:
    """At least ``min_repeats``; then until ``repeats``, or ``budget_s`` are over.

    The budget counts the warm-up. ``wait_s``: how much longer a session may look for repeats at the
    machine's best (:func:`kvsim.calibrate.measure.session.run_session`).
    """

    repeats: int
    budget_s: float
    min_repeats: int = 2
    wait_s: float = 0.0

    def goes_on(self, num_times: int, spent_s: float) -> bool:
        """Whether one more is taken after so many, and so long."""
        return num_times < self.repeats and (
            num_times < self.min_repeats or spent_s < self.budget_s
        )


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of one point in us, beside the fastest anchor first.

    ``discarded``: repeats that did not count, as the machine was slower then. ``anchor_us``: what
    the anchor took beside those that do, median (0 where it was not read).
    """

    times_us: tuple[float, ...]
    rotated_bytes: int
    discarded: int = 0
    anchor_us: float = 0.0

    @property
    def median_us(self) -> float:
        """Median."""
        return statistics.median(self.times_us)

    @property
    def spread(self) -> float:
        """Distance between the quartiles over the median; of two or three times, their whole range.

        One time has no spread: 0.
        """
        if len(self.times_us) < 4:
            low, high = min(self.times_us), max(self.times_us)
        else:
            low, _, high = statistics.quantiles(self.times_us, n=4)
        return (high - low) / self.median_us


class Timer(Protocol):
    """A clock of one device."""

    name: str

    def now_s(self) -> float:
        """Wall time, to keep a budget."""
        ...

    def runners(self, workload: Workload) -> list[Callable[[], float]]:
        """Warmed-up calls that run once and return the us of one call, to be used in turn."""
        ...


def measure(workload: Workload, timer: Timer, rule: TimingRule) -> Timing:
    """Time a workload, whatever the machine does meanwhile."""
    start_s = timer.now_s()
    runners = timer.runners(workload)
    times: list[float] = []
    while rule.goes_on(len(times), timer.now_s() - start_s):
        times.append(runners[len(times) % len(runners)]())
    return Timing(tuple(times), workload.rotated_bytes)


class HostTimer:
    """``perf_counter`` around each call; ``synchronize`` waits for a device without events."""

    def __init__(self, name: str = "perf_counter", synchronize: Callable[[], object] = int) -> None:
        self.name = name
        self._synchronize = synchronize

    def now_s(self) -> float:
        """Wall time."""
        return time.perf_counter()

    def runners(self, workload: Workload) -> list[Callable[[], float]]:
        """One a buffer. The first is warmed up: libraries plan at the first call of a shape."""
        workload.calls[0]()
        self._synchronize()
        return [self._runner(call) for call in workload.calls]

    def _runner(self, call: Callable[[], object]) -> Callable[[], float]:
        def run() -> float:
            start_ns = time.perf_counter_ns()
            call()
            self._synchronize()
            return (time.perf_counter_ns() - start_ns) / 1e3

        return run


class CudaTimer:
    """CUDA events around a graph of all buffers in turn, or around a call without one."""

    name = "CUDA events, graphs where a call can be captured"
    _WARM_UPS = 3

    def now_s(self) -> float:
        """Wall time."""
        return time.perf_counter()

    def runners(self, workload: Workload) -> list[Callable[[], float]]:
        """One of the whole graph, else one a buffer."""
        import torch

        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(self._WARM_UPS):
                workload.calls[0]()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        if workload.capturable:
            try:
                run = self._runner(self._captured(workload.calls), len(workload.calls))
            except RuntimeError as error:  # a calibration must not end with one library's call
                warnings.warn(_UNCAPTURED.format(str(error).partition("\n")[0]), stacklevel=2)
            else:
                run()
                return [run]
        return [self._runner(call, 1) for call in workload.calls]

    def _captured(self, calls: Sequence[Callable[[], object]]) -> Callable[[], None]:
        """Replay of a graph of all calls in turn."""
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in calls:
                call()
        return graph.replay

    def _runner(self, call: Callable[[], object], num_calls: int) -> Callable[[], float]:
        import torch

        def run() -> float:
            start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            return float(start.elapsed_time(end)) * 1e3 / num_calls

        return run


def timer_of(device: torch.device) -> Timer:
    """Timer that fits a device."""
    import torch

    if device.type == "cuda":
        return CudaTimer()
    if device.type == "mps":
        return HostTimer("perf_counter, synchronised", torch.mps.synchronize)
    return HostTimer()
