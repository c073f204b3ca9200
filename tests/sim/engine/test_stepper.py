"""The stepper on scenarios small enough to work out by hand, what it refuses, and its audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.policies.allocators import PagedAllocator
from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig
from kvsim.sim.conformance.stepper_log import StepperLog
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.engine.requests import Requests
from kvsim.sim.engine.stepper import Stepper
from kvsim.sim.recording.recorder import FINISHED, REFUSED
from kvsim.traces.adjust.max_tokens import assume_max_tokens
from kvsim.traces.trace.trace import LENGTH, STOP, Trace
from tests.engine_config import engine_config
from tests.engine_run import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.engine.steps_in_flight import StepInFlight
    from kvsim.sim.run.drive import EngineRun

US = 10**6  # one microsecond in ps: the length of every step


def make_trace(*rows: tuple[int, int, int], stops: bool = False) -> Trace:
    """Rows of (arrival in us, prompt, output)."""
    arrival, prompt, output = np.array(rows, dtype=np.int64).T
    return Trace(
        "hand-made",
        arrival * 1000,
        prompt,
        output,
        max_tokens=np.full_like(output, -1) if stops else output,
        ends_by=np.full(len(rows), STOP if stops else LENGTH, dtype=np.uint8),
    )


def make_config(**rules: object) -> SchedulerConfig:
    defaults = {
        "block_size": 4,
        "num_gpu_blocks": 11,
        "max_num_batched_tokens": 16,
        "max_model_len": 40,
        "enable_prefix_caching": False,
        "retention__prefix_cache_retention_interval": None,
    }
    return engine_config(**(defaults | rules))


def stepped(
    trace: Trace,
    config: SchedulerConfig,
    listener: StepperLog | None = None,
    *,
    audit: bool = True,
) -> EngineRun:
    max_tokens = assume_max_tokens(trace, "model", config.max_model_len)
    return run(
        trace,
        config,
        LinearCost(base_ps=US),
        max_tokens=max_tokens,
        step=True,
        audit=audit,
        listener=listener,
    )


def plan_of(trace: Trace, config: SchedulerConfig) -> list[str]:
    """Each step as text: when it starts, who gets how many tokens, who ends."""
    log = StepperLog(trace)
    stepped(trace, config, log)
    lines = []
    for record in log.records:
        line = f"{record['t0'] // 1000}: "
        line += " ".join(f"{name[-1]}+{tokens}" for name, tokens, _, _ in record["sched"])
        line += "".join(f" -{name[-1]}" for name, _ in record["preempted"])
        line += "".join(f" .{name[-1]}" for name in record["finished"])
        lines.append(line)
    return lines


def test_a_prompt_in_two_chunks_then_decodes() -> None:
    trace = make_trace((3, 20, 3))
    assert plan_of(trace, make_config()) == ["3: 0+16", "4: 0+4", "5: 0+1", "6: 0+1 .0"]
    recorder = stepped(trace, make_config()).recorder
    assert recorder.first_scheduled_ps[0] == 3 * US
    assert recorder.first_token_ps[0] == 5 * US
    assert recorder.finish_ps[0] == 7 * US
    assert recorder.end_ps == 7 * US
    assert recorder.num_steps == 4
    assert (recorder.gaps.num, recorder.gaps.sum_ps) == (2, 2 * US)


def test_a_request_that_arrives_at_a_boundary_is_seen_by_its_call() -> None:
    trace = make_trace((0, 4, 4), (2, 4, 1))
    assert plan_of(trace, make_config())[2] == "2: 0+1 1+4 .1"


def test_one_that_arrives_within_a_step_waits_for_its_end() -> None:
    trace = make_trace((0, 4, 4), (2, 4, 1))
    trace.arrival_ns[1] += 1
    assert plan_of(trace, make_config())[2:4] == ["2: 0+1", "3: 0+1 1+4 .0 .1"]
    recorder = stepped(trace, make_config()).recorder
    assert recorder.waited_ps["step"] == US - 1000
    assert sum(recorder.waited_ps.values()) == US - 1000


def test_async_calls_know_one_step_less() -> None:
    trace = make_trace((0, 4, 3), (1, 4, 1))
    assert plan_of(trace, make_config(async_scheduling=True)) == [
        "0: 0+4",
        "1: 0+1",
        "2: 0+1 1+4 .0 .1",  # r1 came at 1, when the step that starts at 1 was in flight already
    ]


def test_a_stop_token_costs_one_more_step_if_async() -> None:
    trace = make_trace((0, 4, 2), stops=True)
    assert plan_of(trace, make_config()) == ["0: 0+4", "1: 0+1 .0"]
    log = StepperLog(trace)
    stepped(trace, make_config(async_scheduling=True), log)
    assert [len(record["sched"]) for record in log.records] == [1, 1, 1]
    assert [record["dropped"] for record in log.records] == [[], [], ["r0000"]]


def test_a_preempted_request_computes_again() -> None:
    config = make_config(num_gpu_blocks=5)  # 4 blocks
    trace = make_trace((0, 8, 4), (0, 7, 4))
    assert plan_of(trace, config) == [
        "0: 0+8 1+7",
        "1: 0+1 -1",  # r0 needs a third block
        "2: 0+1",  # r1 would need its two blocks and one for the whole of 8 tokens
        "3: 0+1 .0",
        "4: 1+8",
        "5: 1+1",
        "6: 1+1 .1",
    ]
    recorder = stepped(trace, config).recorder
    assert list(recorder.preemptions) == [0, 1]
    assert list(recorder.lost_tokens) == [0, 7]
    assert (recorder.num_stalls, recorder.longest_stall_ps) == (1, 4 * US)
    assert recorder.waited_ps["blocks"] + recorder.waited_ps["admission rule"] == 3 * US


def test_what_can_never_run_is_refused_and_the_rest_goes_on() -> None:
    trace = make_trace((0, 40, 1), (0, 8, 3), (0, 39, 9), (1, 4, 40))
    config = make_config(num_gpu_blocks=10)  # 9 blocks of 4: no sequence of 37 tokens
    assert list(stepped(trace, config).recorder.status) == [REFUSED, FINISHED, REFUSED, REFUSED]
    requests = Requests(trace, config, trace.output_tokens)
    assert [requests.refusal(index) for index in range(4)] == [
        "prompt of 40 tokens >= max_model_len 40",
        None,
        "needs 10 blocks, the pool has 9",
        "needs 10 blocks, the pool has 9",
    ]


def test_an_answer_ends_at_the_model_length() -> None:
    recorder = stepped(make_trace((0, 30, 99)), make_config()).recorder
    assert list(recorder.output_tokens) == [10]


def test_a_head_that_no_idle_engine_can_take_is_refused() -> None:
    """A window group caps what a sequence holds, so only the attempt shows that it is too much."""
    config = make_config(num_gpu_blocks=4, kv_groups=(KVGroup(), KVGroup(sliding_window=9)))
    trace = make_trace((0, 8, 2), (0, 4, 1))
    assert list(stepped(trace, config).recorder.status) == [REFUSED, FINISHED]


def test_a_sequence_that_only_preempts_itself_is_refused() -> None:
    config = make_config(
        num_gpu_blocks=5,
        block_size=1,
        max_num_batched_tokens=4,
        batching__scheduler_reserve_full_isl=False,
        kv_groups=(KVGroup(sliding_window=5),),
    )
    recorder = stepped(make_trace((0, 12, 2), (1, 3, 1)), config).recorder
    assert list(recorder.status) == [REFUSED, FINISHED]


class TooLong(StepperLog):
    """Ends a run that goes on for ever."""

    def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
        super().called(stepper, step_in_flight)
        if len(self.records) > 500:
            pytest.fail("the run does not end")


def test_two_sequences_that_both_lack_room_for_a_window_are_refused() -> None:
    config = make_config(
        num_gpu_blocks=5,
        block_size=1,
        max_num_batched_tokens=4,
        batching__long_prefill_token_threshold=3,
        batching__scheduler_reserve_full_isl=False,
        kv_groups=(KVGroup(sliding_window=5),),
    )
    trace = make_trace((0, 16, 6), (0, 9, 10))
    status = list(stepped(trace, config, TooLong(trace)).recorder.status)
    assert REFUSED in status
    assert set(status) <= {REFUSED, FINISHED}


def test_prefills_that_put_each_other_out_for_ever_are_ended() -> None:
    config = make_config(
        num_gpu_blocks=10,
        block_size=2,
        max_num_batched_tokens=40,
        max_num_seqs=4,
        max_model_len=40,
        queue__policy="priority",
        enable_chunked_prefill=False,
        batching__long_prefill_token_threshold=3,
        batching__scheduler_reserve_full_isl=False,
        allocator__freed_blocks_without_key="back",
        enable_prefix_caching=False,
    )
    trace = make_trace(*((0, prompt, 1) for prompt in (5, 1, 13, 3, 15, 16)))
    status = list(stepped(trace, config).recorder.status)
    assert set(status) == {REFUSED, FINISHED}
    assert status.count(REFUSED) < 3


# ---- audit -----------------------------------------------------------------------------------

TIGHT = make_trace(*((arrival, 5 + arrival % 7, 9) for arrival in range(0, 40, 2)))
RULES: dict[str, dict[str, object]] = {
    "sync": {},
    "cached": {"enable_prefix_caching": True},
    "async": {"async_scheduling": True, "enable_prefix_caching": True},
    "priority": {"queue__policy": "priority"},
    "hybrid": {"kv_groups": (KVGroup(), KVGroup(sliding_window=6)), "num_gpu_blocks": 18},
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_the_audit_checks_every_call_and_passes(rules: dict[str, object]) -> None:
    done = stepped(TIGHT, make_config(**rules))
    assert set(done.recorder.status) == {FINISHED}
    assert done.recorder.num_preemptions > 0
    assert done.audited >= done.recorder.num_steps // 2
    assert stepped(TIGHT, make_config(**rules), audit=False).audited == 0


def _paged(stepper: Stepper) -> PagedAllocator:
    allocator = stepper.state.allocator
    assert isinstance(allocator, PagedAllocator)
    return allocator


def _lose_a_block(stepper: Stepper) -> None:
    _paged(stepper).pool.free_queue.pop_front()


def _overrun(stepper: Stepper) -> None:
    stepper.state.running[0].num_computed_tokens += 100


def _empty_a_table(stepper: Stepper) -> None:
    del _paged(stepper).groups[0].tables[stepper.state.running[0].index][:]


def _forget_a_sequence(stepper: Stepper) -> None:
    stepper.state.running.pop()


def _seat_too_many(stepper: Stepper) -> None:
    stepper.state.running.extend(stepper.state.running * 300)


@pytest.mark.parametrize(
    ("breaks", "message"),
    [
        (_lose_a_block, "a block is lost"),
        (_overrun, "computed more than it knows"),
        (_empty_a_table, "has no block"),
        (_forget_a_sequence, "blocks of no sequence"),
        (_seat_too_many, "more sequences than max_num_seqs"),
    ],
)
def test_the_audit_sees_what_is_broken(
    breaks: Callable[[Stepper], None], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Stepper.check_invariants

    def broken(stepper: Stepper) -> None:
        if len(stepper.state.running) > 1:
            breaks(stepper)
        check(stepper)

    monkeypatch.setattr(Stepper, "check_invariants", broken)
    with pytest.raises(AssertionError, match=message):
        stepped(TIGHT, make_config())
