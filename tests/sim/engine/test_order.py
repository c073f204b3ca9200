"""What happens at one instant, row by row of ``docs/order.md``, each with a fault that it sees.

A fault is a literal change of source text, made for the length of one test; text that is no longer
there fails the test, so a patch never goes stale in silence. Steps last whole nanoseconds here, so
that their ends meet arrivals, think times and the patience of clients.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.policies.allocators import PagedAllocator
from kvsim.policies.batching import MixedRunningFirst
from kvsim.policies.queue_order import FCFS
from kvsim.sim.cost.host_link import HostLink
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.engine.closed_loop_driver import SessionDriver
from kvsim.sim.engine.driver import Driver
from kvsim.sim.engine.listener import ABORT, ScheduleListener
from kvsim.sim.engine.stepper import Stepper
from kvsim.sim.recording.recorder import FINISHED, REFUSED
from kvsim.traces.adjust.closed_loop import FollowOns
from kvsim.traces.trace.trace import MorePredecessors, PrefixIds, Trace
from tests.engine_config import engine_config
from tests.engine_run import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.engine.steps_in_flight import Results, StepInFlight
    from kvsim.sim.recording.recorder import Recorder

PAGE = Path(__file__).resolve().parents[3] / "docs" / "order.md"
NS = 1000  # picoseconds
STEP = LinearCost(NS)


class Course(ScheduleListener):
    """Writes down what happens, in order: (ns, what, whom)."""

    def __init__(self) -> None:
        self.events: list[tuple[int, str, list[int]]] = []
        self.free: list[int] = []

    def _add(self, now_ps: int, what: str, whom: list[int]) -> None:
        self.events.append((now_ps // NS, what, whom))

    def arrived(self, stepper: Stepper, index: int, now_ps: int) -> None:
        self._add(now_ps, "arrives", [index])

    def withdrawn(self, stepper: Stepper, index: int, now_ps: int, why: str) -> None:
        self._add(now_ps, "gives up" if why == ABORT else "refused", [index])

    def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
        step, now_ps = step_in_flight.step, step_in_flight.call_ps
        for preempt in step.preempted:
            self._add(now_ps, "put out", [preempt.sequence.index])
        self._add(now_ps, "call", [item.sequence.index for item in step_in_flight.items])

    def applied(self, stepper: Stepper, results: Results) -> None:
        self._add(results.step_in_flight.end_ps, "results", results.finished)
        if isinstance(stepper.state.allocator, PagedAllocator):
            self.free = [block.id for block in stepper.state.allocator.pool.free_queue]

    def at(self, now: int) -> list[tuple[str, list[int]]]:
        """What happens at one instant."""
        return [(what, whom) for time, what, whom in self.events if time == now]


def course_of(
    rows: list[tuple[int, int, int]],
    cost: LinearCost = STEP,
    *,
    after: dict[int, tuple[list[int], int]] | None = None,
    patience: dict[int, int] | None = None,
    num_users: int | None = None,
    prefix: PrefixIds | None = None,
    priority: list[int] | None = None,
    step: bool = True,
    **options: Any,
) -> tuple[Course, Recorder]:
    """Run requests ``(arrival in ns, prompt, output)``.

    ``after``: whose answers a request waits for, and its think time in ns.
    """
    columns = np.array(rows, dtype=np.int64).T
    trace = Trace("order", columns[0], columns[1], columns[2], prefix=prefix)
    num = len(rows)
    if patience is not None:
        trace.timeout_ns = np.array([patience.get(i, -1) for i in range(num)], dtype=np.int64)
    if priority is not None:
        trace.priority = np.array(priority, dtype=np.int64)
    loop = None
    if after is not None:
        awaited = [after.get(i, ([], 0)) for i in range(num)]
        others = [before[1:] for before, _ in awaited]
        loop = FollowOns(
            np.array([before[0] if before else -1 for before, _ in awaited], dtype=np.int64),
            np.array([delay for _, delay in awaited], dtype=np.int64),
            also_after=MorePredecessors(
                np.cumsum([0, *map(len, others)], dtype=np.int64),
                np.array([one for row in others for one in row], dtype=np.int64),
            ),
        )
    config = engine_config(**{"num_gpu_blocks": 101, "max_model_len": 200} | options)
    link = HostLink(0, 10**15, block_bytes=1, copies_per_block=1)
    course = Course() if step else None
    recorder = run(
        trace,
        config,
        cost,
        max_tokens=trace.output_tokens,
        listener=course,
        follow_ons=loop,
        num_users=num_users,
        link=link if config.preemption.mode == "swap" else None,
        audit=True,
    ).recorder
    return course or Course(), recorder


# ---- the rows ----------------------------------------------------------------------------------


def messages_of_the_step() -> None:
    """Who came and who gave up during a step is told at its end, before its results."""
    rows = [(0, 10, 2), (1, 10, 5), (2, 10, 1)]
    came = [(1, "arrives", [1]), (2, "arrives", [2])]
    course, _ = course_of(rows, LinearCost(4 * NS), patience={1: 10**6})
    assert course.events[2:6] == [*came, (4, "results", []), (4, "call", [0, 1, 2])]
    course, _ = course_of(rows, LinearCost(4 * NS), patience={1: 2})
    gone = (4, "gives up", [1])
    assert course.events[2:7] == [*came, gone, (4, "results", []), (4, "call", [0, 2])]


def results() -> None:
    """Results come in the order of the step: of two that end, the second frees last."""
    course, _ = course_of([(0, 20, 1), (0, 20, 1)], enable_prefix_caching=False)
    assert course.free[:4] == [4, 3, 2, 1], "tails first, blocks without a key to the front"


def answers() -> None:
    """Of answers that end at once, the last of the trace brings what waits for them all."""
    rows = [(0, 10, 1), (0, 10, 1), (0, 10, 1), (0, 10, 1), (0, 10, 1)]
    after = {2: ([0, 1], 5), 3: ([0], 20)}
    _, recorder = course_of(
        rows, after=after, num_users=2, queue__policy="priority", priority=[1, 0, 0, 0, 0]
    )
    assert recorder.arrival_ps is not None
    assert [ps // NS for ps in recorder.arrival_ps] == [0, 0, 6, 21, 7]


def arrivals() -> None:
    """Results first, whoever drives; who is sent at once is told in the trace's order."""
    rows = [(0, 10, 1), (1, 10, 1)]
    for patience in (None, {0: 10**6}):
        course, _ = course_of(rows, patience=patience)
        assert course.at(1) == [("results", [0]), ("arrives", [1]), ("call", [1])]
    course, _ = course_of([(0, 10, 1), (0, 10, 1), (5, 10, 1)], after={1: ([0], 4)})
    assert course.at(5) == [("arrives", [1]), ("arrives", [2]), ("call", [1, 2])]


def patience() -> None:
    """An answer just in time counts; who gives up at once leaves before the call."""
    rows = [(0, 10, 1), (1, 10, 1)]
    course, recorder = course_of(rows, patience={0: 1, 1: 0})
    assert recorder.status[0] == FINISHED
    assert course.at(1) == [("results", [0]), ("arrives", [1]), ("gives up", [1])]
    rows = [(0, 10, 1), (0, 10, 50), (2, 10, 50)]
    course, _ = course_of(rows, after={1: ([0], 6)}, patience={1: 3, 2: 8})
    assert course.at(10)[1:] == [("gives up", [1]), ("gives up", [2])]


def running_requests() -> None:
    """They are served in order of admission, before anybody enters."""
    course, _ = course_of([(0, 10, 9), (1, 10, 9), (2, 10, 9), (2, 10, 9)])
    assert course.at(2)[-1] == ("call", [0, 1, 2, 3])


def victims() -> None:
    """The last admitted goes, to the front of the queue; in such a call nobody enters."""
    rows = [(0, 15, 4), (0, 15, 4), (2, 1, 1)]
    course, _ = course_of(rows, num_gpu_blocks=4, enable_prefix_caching=False)
    assert course.at(2)[2:] == [("put out", [1]), ("call", [0])]
    assert course.at(4) == [("results", [0]), ("call", [1, 2])]


def host() -> None:
    """Who is on the host comes back before the queue."""
    rows = [(0, 15, 4), (0, 15, 4), (2, 1, 1)]
    swap: dict[str, Any] = {"preemption__mode": "swap", "num_host_blocks": 9}
    course, _ = course_of(rows, num_gpu_blocks=4, enable_prefix_caching=False, **swap)
    assert course.at(4) == [("results", [0]), ("call", [1, 2])]


def queue() -> None:
    """One after the other enters: the second finds what the first is about to compute."""
    ids = PrefixIds(16, np.array([0, 1, 2]), np.array([7, 7]), covers_output=False)
    _, recorder = course_of([(0, 20, 1), (0, 20, 1)], prefix=ids)
    assert list(recorder.hit_tokens) == [0, 16]


def second_call() -> None:
    """An idle engine with two steps in flight is called twice at one instant."""
    course, _ = course_of([(0, 10, 3)], async_scheduling=True)
    assert course.at(0) == [("arrives", [0]), ("call", [0]), ("call", [0])]


def stuck_requests() -> None:
    """Whom the empty pool does not hold is refused, and the next one enters at once."""
    contiguous: dict[str, Any] = {
        "allocator__kind": "contiguous",
        "allocator__reservation": "oracle",
    }
    contiguous |= {"allocator__placement": "buddy", "block_size": 1, "enable_prefix_caching": False}
    course, recorder = course_of([(0, 79, 1), (0, 10, 1)], **contiguous)
    assert (recorder.status[0], recorder.first_scheduled_ps[1]) == (REFUSED, 0)
    assert course.at(0)[2:] == [("refused", [0]), ("call", [1])]


def next_step() -> None:
    """Steps of no length end at the instant at which they start: the list begins anew."""
    rows = [(0, 10, 20), (3, 10, 2)]
    cost = LinearCost(0, per_prefill_token_ps=300)  # 10 tokens: 3 ns, then decodes for nothing
    for step in (False, True):
        _, recorder = course_of(rows, cost, step=step, async_scheduling=True)
        assert list(recorder.finish_ps) == [6 * NS, 6 * NS]
    course, _ = course_of([(0, 10, 2), (0, 10, 1)], LinearCost(0), after={1: ([0], 0)})
    assert {time for time, _, _ in course.events} == {0}


def accounts() -> None:
    """What memory held up to an instant is booked before anything changes then."""
    _, recorder = course_of([(0, 20, 1), (4, 20, 1)], LinearCost(4 * NS))
    assert sum(recorder.windows["running"]) == 8 * NS
    assert sum(recorder.windows["empty"]) == 12 * 8 * NS


@dataclass(frozen=True)
class Row:
    """A row of the page: its check, and a change of source that the check sees."""

    check: Callable[[], None]
    owner: type
    method: str
    old: str
    new: str


APPLY = "self.memory.account(now_ps, idle=not self._in_flight)\n    step_in_flight"
TAKE = """if self._next_ps < now_ps:
        self._take_arrivals(now_ps - 1)"""
TELL = """self._tell_aborts(now_ps)
    boundary_ps = self._engine.plan(now_ps)"""
PLAN_FIRST = """boundary_ps = self._engine.plan(now_ps)
    self._tell_aborts(now_ps)"""

ROWS: dict[str, list[Row]] = {
    "Messages of the step": [
        Row(messages_of_the_step, SessionDriver, "_boundary", "self._tell_aborts(now_ps)", "pass"),
        Row(messages_of_the_step, SessionDriver, "_boundary", "self._tell_arrivals()", "pass"),
    ],
    "Results": [
        Row(
            results,
            Stepper,
            "apply",
            "in step_in_flight.items",
            "in reversed(step_in_flight.items)",
        )
    ],
    "Ends of outputs": [Row(answers, SessionDriver, "_boundary", "in sorted(", "in iter(")],
    "Arrivals": [
        Row(arrivals, Driver, "_boundary", TAKE, "self._take_arrivals(now_ps)"),
        Row(arrivals, SessionDriver, "_tell_arrivals", "in sorted(", "in iter("),
    ],
    "Time-outs": [
        Row(patience, SessionDriver, "_post", "URGENT", "1"),
        Row(patience, SessionDriver, "_plan", TELL, PLAN_FIRST),
        Row(patience, SessionDriver, "_tell_aborts", "in sorted(", "in iter("),
    ],
    "Running requests": [
        Row(running_requests, MixedRunningFirst, "_admit", "items.append(", "items.insert(0, ")
    ],
    "Victims": [Row(victims, FCFS, "push_preempted", "appendleft", "append")],
    "Swap-ins": [Row(host, MixedRunningFirst, "compose", "if not state.swapped:", "if True:")],
    "The queue": [Row(queue, PagedAllocator, "admit", "hit.tokens + new_tokens, s", "0, s")],
    "A second call": [Row(second_call, Stepper, "plan", "< self._depth", "< 1")],
    "Stuck requests": [
        Row(stuck_requests, Stepper, "plan", "return self.plan(now_ps)", "return None")
    ],
    "The next step": [
        Row(
            next_step,
            Driver,
            "_plan",
            "if self._next_ps <= boundary_ps",
            "if self._next_ps < boundary_ps",
        )
    ],
    "Accounts": [Row(accounts, Stepper, "apply", APPLY, "step_in_flight")],
}
CHECKS = [row for rows in ROWS.values() for row in rows]


def test_the_page_has_these_rows() -> None:
    titles = re.findall(r"^\| \d+ \| \*\*(.+?)\*\* \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert titles == list(ROWS)


@pytest.mark.parametrize(
    "check", dict.fromkeys(row.check for row in CHECKS), ids=lambda check: check.__name__
)
def test_order(check: Callable[[], None]) -> None:
    check()


@pytest.mark.parametrize("row", CHECKS, ids=lambda row: f"{row.owner.__name__}.{row.method}")
def test_another_order_is_seen(
    row: Row, change_source: Callable[[type, str, str, str], None]
) -> None:
    change_source(row.owner, row.method, row.old, row.new)
    with pytest.raises(AssertionError):
        row.check()
