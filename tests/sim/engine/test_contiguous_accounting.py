"""Memory of random runs with reservations, slot by slot.

A second account is kept from snapshots after every scheduling call: a bitmap of the pool, and
reservations and round-ups worked out again from the trace. It must add up to the recorder's
integrals exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.policies.allocators import ContiguousAllocator
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.engine.driver import Driver
from kvsim.sim.engine.listener import ScheduleListener
from kvsim.sim.engine.requests import Requests
from kvsim.sim.engine.stepper import Stepper
from kvsim.sim.metrics.shares import PRIMITIVES, all_time, while_waiting
from kvsim.sim.pool.shape import PoolShape
from kvsim.sim.recording.recorder import FINISHED, REFUSED, Recorder
from kvsim.traces.adjust.max_tokens import assume_max_tokens
from kvsim.traces.trace.trace import LENGTH, STOP, Trace
from tests.engine_config import engine_config

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.policies.sequence import Sequence
    from kvsim.sim.engine.steps_in_flight import StepInFlight

MODEL_LEN = 40
POWERS = (1, 2, 4, 8, 16, 32, 64, 128)

PLACES = st.sampled_from(
    [
        ("buddy", "none"),
        ("first-fit", "none"),
        ("best-fit", "none"),
        ("first-fit", "when-blocked"),
        ("best-fit", "when-blocked"),
    ]
)
CONFIGS = st.builds(
    lambda place, **options: engine_config(
        allocator__placement=place[0], allocator__compaction=place[1], **options
    ),
    place=PLACES,
    allocator__kind=st.just("contiguous"),
    allocator__reservation=st.sampled_from(["max", "pow2", "oracle", "predicted", "predicted"]),
    allocator__reservation_margin=st.sampled_from([0.25, 1.0, 1.5]),
    predictor__kind=st.sampled_from(["max_tokens", "oracle", "noisy", "bucketed", "quantile"]),
    predictor__prior=st.sampled_from([1, 5, 20]),
    predictor__bucket_bounds=st.just((4, 16)),
    batching__policy=st.sampled_from(["iteration-level", "mixed-running-first"]),
    block_size=st.just(1),
    num_gpu_blocks=st.integers(20, 150),
    max_num_batched_tokens=st.integers(4, 40),
    max_num_seqs=st.integers(1, 5),
    max_model_len=st.just(MODEL_LEN),
    enable_prefix_caching=st.just(False),
    queue__policy=st.sampled_from(["fcfs", "fcfs", "priority"]),
    async_scheduling=st.booleans(),
) | st.builds(
    engine_config,
    allocator__kind=st.just("contiguous"),
    allocator__reservation=st.sampled_from(["max", "pow2", "oracle"]),
    allocator__placement=st.sampled_from(["buddy", "first-fit", "best-fit"]),
    batching__policy=st.sampled_from(["static", "no-evict"]),
    block_size=st.just(1),
    num_gpu_blocks=st.integers(20, 150),
    max_num_seqs=st.integers(1, 5),
    max_model_len=st.just(MODEL_LEN),
    enable_prefix_caching=st.just(False),
    batching__pad_to_longest=st.booleans(),
)
COSTS = st.builds(
    LinearCost,
    st.just(1500),
    st.sampled_from([0, 100]),
    st.sampled_from([0, 70]),
    st.just(3),
    per_copied_token_ps=st.sampled_from([0, 40]),
)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Up to twelve requests in bursts; answers end by length or by a token nobody foresaw."""
    number = draw(st.integers(1, 12))

    def column(low: int, high: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array(draw(st.lists(st.integers(low, high), min_size=number, max_size=number)))

    prompts, outputs = column(1, 20), column(1, 25)
    ends_by = np.where(column(0, 3) == 0, STOP, LENGTH).astype(np.uint8)
    return Trace(
        "random",
        np.cumsum(column(0, 1) * column(0, 40)),
        prompts,
        outputs,
        max_tokens=np.where(ends_by == STOP, -1, outputs),
        ends_by=ends_by,
        priority=column(0, 2),
    )


@dataclass
class Snapshot:
    """State from ``time_ps`` until the next one: what the queue's head would take, and the runs.

    A run is (residency, first slot, reserved, computed). ``ended``: members of a batch that still
    hold their run.
    """

    time_ps: int
    head_slots: int | None
    runs: list[tuple[tuple[int, int], int, int, int]]
    ended: set[int]


class Account(Stepper, ScheduleListener):
    """A stepper that is watched from outside."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args, audit=True, listener=self)
        self.snapshots: list[Snapshot] = []
        self.final: dict[tuple[int, int], int] = {}
        self.copied = 0

    def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
        lacks = self.config.allocator.reservation == "predicted"
        assert lacks or not step_in_flight.step.preempted, (
            "reservations leave nothing to preempt for"
        )
        for item in step_in_flight.items:
            self.final[item.sequence.index, item.preemption_count] = item.past + item.num_tokens
        prefills = [
            (item.num_tokens, item.past) for item in step_in_flight.items if not item.decodes
        ]
        contexts = [item.past + 1 for item in step_in_flight.items if item.decodes]
        relocations = stepper.state.allocator.relocations
        copied = 0 if relocations is None else relocations.copied_tokens
        assert isinstance(self._steps_in_flight.cost, LinearCost)
        step_ps = self._steps_in_flight.cost.step(
            prefills, len(contexts), sum(contexts)
        ).duration_ps
        copy_ps = (copied - self.copied) * self._steps_in_flight.cost.per_copied_token_ps
        if not step_in_flight.step.ends_together:  # rows of ended members are paid for, too
            assert step_in_flight.end_ps - step_in_flight.start_ps == step_ps + copy_ps
        self.copied = copied

    def plan(self, now_ps: int) -> int | None:
        boundary_ps = super().plan(now_ps)
        state = self.state
        assert isinstance(state.allocator, ContiguousAllocator)
        self.snapshots.append(
            Snapshot(
                now_ps,
                self.wanted(state.waiting.head()) if len(state.waiting) else None,
                [
                    (
                        (s.index, s.num_preemptions),
                        state.allocator.address_of(s),
                        s.reserved,
                        s.num_computed_tokens,
                    )
                    for s in (*state.running, *state.ended)
                ],
                {s.index for s in state.ended},
            )
        )
        if self.config.allocator.reservation != "predicted":
            assert all(s.reserved == self.wanted(s) for s in state.running)
        return boundary_ps

    def wanted(self, sequence: Sequence) -> int:
        """Reservation of a sequence that enters, by its definition."""
        index = sequence.index
        if self.config.allocator.reservation == "predicted":
            guess = self.state.context.predictor.output_tokens(sequence)
            guess = -(-guess * int(4 * self.config.allocator.reservation_margin) // 4)
            return min(max(sequence.prompt_tokens + guess, sequence.num_tokens + 1), MODEL_LEN)
        prompt, output = self._requests.prompt_tokens[index], self._requests.num_outputs(index)
        if self.config.allocator.reservation == "max":
            return MODEL_LEN
        if self.config.allocator.reservation == "pow2":
            return min(prompt + next(p for p in POWERS if p >= output), MODEL_LEN)
        unforeseen = self.config.async_scheduling and not self._requests.foreseen[index]
        return prompt + output - 1 + unforeseen

    def rounded(self, slots: int) -> int:
        """Round-up by its definition."""
        if self.config.allocator.placement != "buddy":
            return slots
        return next(power for power in POWERS if power >= slots)

    def fits(self, taken: list[bool], slots: int) -> bool:
        """Whether a run can be placed: anywhere, or at multiples of its size."""
        length = self.rounded(slots)
        stride = length if self.config.allocator.placement == "buddy" else 1
        starts = range(0, len(taken) - length + 1, stride)
        return any(not any(taken[start : start + length]) for start in starts)

    def slots(self, snapshot: Snapshot) -> dict[str, int]:
        """Slots of the pool by what they hold."""
        found = dict.fromkeys(PRIMITIVES, 0)
        taken = [False] * self.config.num_gpu_blocks
        for residency, address, reserved, computed in snapshot.runs:
            final = self.final[residency]
            run = slice(address, address + self.rounded(reserved))
            assert not any(taken[run]), "two runs overlap"
            assert len(taken[run]) == self.rounded(reserved), "a run leaves the pool"
            taken[run] = [True] * len(taken[run])
            found["padding" if residency[0] in snapshot.ended else "token"] += computed
            found["future"] += min(final, reserved) - computed
            found["never"] += max(reserved - final, 0)
            found["padding"] += self.rounded(reserved) - reserved
        free, slots = taken.count(False), snapshot.head_slots
        kind = "free" if slots is None else "blocked"
        if slots is not None and slots <= free and not self.fits(taken, slots):
            kind = "hole"
        found[kind] = free
        return found


def total(account: Account, *, waiting_only: bool) -> dict[str, int]:
    """Integrals over the run (slot-ps): everything is free before the first call."""
    sums = dict.fromkeys(PRIMITIVES, 0)
    if not waiting_only:
        sums["free"] = account.config.num_gpu_blocks * account.snapshots[0].time_ps
    for snapshot, after in zip(account.snapshots, account.snapshots[1:], strict=False):
        if waiting_only and snapshot.head_slots is None:
            continue
        for name, slots in account.slots(snapshot).items():
            sums[name] += slots * (after.time_ps - snapshot.time_ps)
    return sums


def watched(config: SchedulerConfig, trace: Trace, cost: LinearCost) -> tuple[Account, Recorder]:
    requests = Requests(trace, config, assume_max_tokens(trace, "model", config.max_model_len))
    recorder = Recorder(len(trace), max_flips=None)
    account = Account(config, cost, requests, recorder)
    Driver(account, requests).run()
    assert set(recorder.status) <= {FINISHED, REFUSED}
    return account, recorder


@given(CONFIGS, traces(), COSTS)
def test_integrals_against_every_slot(
    config: SchedulerConfig, trace: Trace, cost: LinearCost
) -> None:
    account, recorder = watched(config, trace, cost)
    pool = PoolShape(config.num_gpu_blocks, 1, block_bytes=1, num_null_blocks=0)
    if account.snapshots:
        assert total(account, waiting_only=False) == all_time(recorder, pool)
    assert total(account, waiting_only=True) == while_waiting(recorder, pool)
    for parts, window_ps in (
        (all_time(recorder, pool), sum(recorder.windows["window"])),
        (while_waiting(recorder, pool), recorder.while_waiting["window"]),
    ):
        assert sum(parts.values()) == config.num_gpu_blocks * window_ps
        assert min(parts.values()) >= 0
        if config.allocator.reservation == "oracle":
            assert parts["never"] == 0


@given(CONFIGS, traces(), COSTS, st.data())
def test_what_nobody_knows_changes_nothing(
    config: SchedulerConfig, trace: Trace, cost: LinearCost, data: st.DataObject
) -> None:
    """A run, twice: answers that are unfinished at some time get other lengths then."""
    config = engine_config(
        config,
        allocator__reservation=data.draw(st.sampled_from(["max", "predicted"])),
        predictor__kind=data.draw(st.sampled_from(["max_tokens", "quantile"])),
        async_scheduling=False,
    )
    stops = np.full(len(trace), STOP, dtype=np.uint8)
    trace = replace(trace, max_tokens=np.full(len(trace), -1), ends_by=stops)
    account, recorder = watched(config, trace, cost)
    ends_ps = [ps for ps in recorder.finish_ps if ps >= 0]
    if not ends_ps:
        return
    until_ps = data.draw(st.sampled_from(ends_ps))
    longer = np.array([0 < ps <= until_ps for ps in recorder.finish_ps])
    other = replace(trace, output_tokens=np.where(longer, 0, 1) + trace.output_tokens)
    again, _ = watched(config, other, cost)
    for one, two in zip(account.snapshots, again.snapshots, strict=False):
        if one.time_ps >= until_ps:
            break
        assert (one.time_ps, one.runs) == (two.time_ps, two.runs)


@pytest.mark.parametrize(("reservation", "leaks"), [("max", False), ("oracle", True)])
def test_the_oracle_is_seen_to_know(reservation: str, leaks: bool) -> None:
    """The first call's decision, with two answers for the second of two requests."""
    decisions = []
    for output in (2, 20):
        trace = Trace("two", np.zeros(2, np.int64), np.array([10, 10]), np.array([5, output]))
        config = engine_config(
            allocator__kind="contiguous",
            allocator__reservation=reservation,
            block_size=1,
            num_gpu_blocks=40,
            max_model_len=MODEL_LEN,
            enable_prefix_caching=False,
        )
        account, _ = watched(config, trace, LinearCost(1500))
        decisions.append(account.snapshots[0].runs)
    assert (decisions[0] != decisions[1]) is leaks
