"""Schedules of each batching, worked out by hand from the rule of its source.

Every step lasts 1 us. A line is: when the step starts, who gets how many tokens, who is put out
(``-``), who ends with it (``.``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.engine.listener import ScheduleListener
from kvsim.traces.trace.trace import LENGTH, Trace
from tests.engine_config import engine_config
from tests.engine_run import run

if TYPE_CHECKING:
    from kvsim.sim.cost.step_cost import StepCost
    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.engine.steps_in_flight import Results, StepInFlight
    from kvsim.sim.recording.recorder import Recorder

US = 10**6


def make_trace(*rows: tuple[int, ...]) -> Trace:
    """Rows of (arrival in us, prompt, output) and, where it is more, max_tokens."""
    arrival, prompt, output, most = np.array([(*row, row[2])[:4] for row in rows], dtype=np.int64).T
    return Trace(
        "hand-made",
        arrival * 1000,
        prompt,
        output,
        max_tokens=most,
        ends_by=np.full(len(rows), LENGTH, dtype=np.uint8),
    )


class Plan(ScheduleListener):
    """Writes a run down, and what its memory held after each call."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.spare: list[int] = []

    def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
        line = f"{step_in_flight.start_ps // US}: "
        line += " ".join(
            f"{item.sequence.index}+{item.num_tokens}" for item in step_in_flight.items
        )
        line += "".join(f" -{gone.sequence.index}" for gone in step_in_flight.step.preempted)
        self.lines.append(line)
        self.spare.append(stepper.state.allocator.num_spare)

    def applied(self, stepper: Stepper, results: Results) -> None:
        self.lines[-1] += "".join(f" .{index}" for index in results.finished)


def played(
    trace: Trace, batching: str, cost: StepCost | None = None, **rules: Any
) -> tuple[Plan, Recorder]:
    defaults: dict[str, Any] = {
        "batching__policy": batching,
        "block_size": 4,
        "num_gpu_blocks": 11,
        "max_num_batched_tokens": 16,
        "max_model_len": 40,
        "enable_prefix_caching": False,
    }
    config = engine_config(**(defaults | rules))
    plan = Plan()
    assert trace.max_tokens is not None
    done = run(
        trace,
        config,
        cost or LinearCost(base_ps=US),
        max_tokens=trace.max_tokens,
        audit=True,
        listener=plan,
    )
    return plan, done.recorder


def plan_of(trace: Trace, batching: str, **rules: Any) -> list[str]:
    return played(trace, batching, **rules)[0].lines


WATERMARK: dict[str, Any] = {"batching__prefill_rule": "watermark", "enable_chunked_prefill": False}

# ---- prefill first: vLLM v0 -------------------------------------------------------------------


@pytest.mark.parametrize("rules", [WATERMARK, {}], ids=["watermark", "new-token-ratio"])
def test_prompts_go_first_and_alone(rules: dict[str, Any]) -> None:
    trace = make_trace((0, 8, 3), (0, 6, 2), (1, 4, 2))
    assert plan_of(trace, "prefill-first", **rules) == [
        "0: 0+8 1+6",
        "1: 2+4",
        "2: 0+1 1+1 2+1 .1 .2",
        "3: 0+1 .0",
    ]


def test_whole_prompts_wait_for_the_budget_of_a_prefill() -> None:
    trace = make_trace((0, 10, 2), (0, 7, 1))
    assert plan_of(trace, "prefill-first", **WATERMARK) == ["0: 0+10", "1: 1+7 .1", "2: 0+1 .0"]


def test_the_watermark_holds_in_an_idle_engine_and_for_good() -> None:
    """Of 20 blocks int(0.1 * 21) = 2 stay free: 18 for a prompt, but never 19."""
    rules = {
        "batching__watermark": 0.1,
        "num_gpu_blocks": 21,
        "max_num_batched_tokens": 99,
    } | WATERMARK
    trace = make_trace((0, 73, 2), (0, 69, 1), (0, 4, 1))
    plan, recorder = played(trace, "prefill-first", **rules, max_model_len=99)
    assert plan.lines == ["0: 1+69 .1", "1: 2+4 .2"]
    assert recorder.refusals == {
        0: "needs 19 blocks, but the watermark keeps 2 of 20 free",
    }
    assert recorder.waited_ps["admission rule"] == US


def test_a_decode_needs_a_free_block_even_where_its_own_has_room() -> None:
    """Four blocks, all taken: the engine counts the block that a token touches."""
    trace = make_trace((0, 7, 3), (0, 6, 3))
    assert plan_of(trace, "prefill-first", num_gpu_blocks=5, **WATERMARK) == [
        "0: 0+7 1+6",
        "1: 0+1 -1",
        "2: 1+7",
        "3: 0+1 -1 .0",
        "4: 1+8 .1",
    ]
    assert plan_of(trace, "mixed-running-first", num_gpu_blocks=5)[1] == "1: 0+1 1+1"


# ---- prefill first: SGLang --------------------------------------------------------------------

TOKENS: dict[str, Any] = {"block_size": 1, "num_gpu_blocks": 101, "max_model_len": 90}


def test_one_prompt_is_cut_and_steps_stay_prefills_until_it_is_done() -> None:
    trace = make_trace((0, 5, 3), (0, 20, 2), (1, 7, 1))
    assert plan_of(trace, "prefill-first", **TOKENS) == [
        "0: 0+5 1+11",
        "1: 1+9 2+7 .2",
        "2: 0+1 1+1 .1",
        "3: 0+1 .0",
    ]


@pytest.mark.parametrize(("prompt", "enters"), [(21, True), (22, False)])
def test_running_answers_count_by_the_ratio(prompt: int, enters: bool) -> None:
    """At 1 us: 100 - 30 - 0.7 * (40 - 1) = 42.7 must exceed prompt + 20 + 1."""
    trace = make_trace((0, 30, 40), (1, prompt, 20))
    second = plan_of(trace, "prefill-first", **TOKENS, max_num_batched_tokens=64)[1]
    assert second == (f"1: 1+{prompt}" if enters else "1: 0+1")


def test_after_a_refusal_nobody_is_tried_until_somebody_leaves() -> None:
    """In the first step 100 - 30 - 1 - 40 = 29 is not above 10 + 20 + 1; later it would be."""
    trace = make_trace((0, 30, 4, 40), (0, 10, 20))
    plan, recorder = played(trace, "prefill-first", **TOKENS, max_num_batched_tokens=64)
    assert plan.lines[:5] == ["0: 0+30", "1: 0+1", "2: 0+1", "3: 0+1 .0", "4: 1+10"]
    assert recorder.waited_ps["admission rule"] == 4 * US


RETRACTION: dict[str, Any] = {
    "block_size": 1,
    "num_gpu_blocks": 21,
    "batching__new_token_ratio": 0.1,
}


def test_a_decode_that_lacks_memory_retracts_to_the_back_of_the_queue() -> None:
    """Both have 6 outputs when 20 slots are full: the longer prompt goes. Ratio 26/9 -> 1.

    So at 8 us 10 free slots less the 1 that request 1 may still take do not hold 12 + 2 + 1.
    """
    trace = make_trace((0, 6, 8), (1, 4, 8), (7, 2, 1))
    plan, recorder = played(trace, "prefill-first", **RETRACTION)
    assert plan.lines == [
        "0: 0+6",
        "1: 1+4",
        *(f"{time}: 0+1 1+1" for time in range(2, 7)),
        "7: 1+1 -0",
        "8: 2+2 .2",
        "9: 1+1 .1",
        "10: 0+12",
        "11: 0+1 .0",
    ]
    assert list(recorder.lost_tokens) == [11, 0, 0]


def test_fewest_output_tokens_are_retracted_first() -> None:
    trace = make_trace((0, 4, 9), (2, 6, 9))
    lines = plan_of(trace, "prefill-first", **RETRACTION, batching__clip_max_new_tokens=4)
    retracting = next(line for line in lines if "-" in line)
    assert retracting == "7: 0+1 -1"  # 4 + 6 + 6 + 4 = 20 slots; 7 outputs against 5


# ---- static -----------------------------------------------------------------------------------

BATCH = make_trace((0, 4, 2), (0, 6, 4), (0, 3, 1), (1, 2, 1))


def test_a_static_batch_runs_to_its_end_and_keeps_what_it_took() -> None:
    plan, recorder = played(BATCH, "static", max_num_seqs=2)
    assert plan.lines == [
        "0: 0+4 1+6",
        "1: 0+1 1+1 .0",
        "2: 1+1",
        "3: 1+1 .1",
        "4: 2+3 3+2 .2 .3",
    ]
    assert plan.spare == [7, 6, 6, 5, 8]  # request 0 holds its 2 blocks until the end
    assert recorder.waited_ps["max_num_seqs"] == 1 * US
    # 5 computed tokens of request 0 from 2 us to 4 us
    assert sum(recorder.windows["padding"]) == 5 * 2 * US


def test_rows_are_paid_for_to_the_end_and_at_full_width_if_padded() -> None:
    """10 ps a prefill token, 1000 a decoding row, 1 a token of context."""
    cost = LinearCost(0, per_prefill_token_ps=10, per_decode_seq_ps=1000, per_context_token_ps=1)
    two = make_trace((0, 4, 2), (0, 6, 4))
    _, removed = played(two, "static", cost)
    steps = [11 * (4 + 6), 2000 + 5 + 7, 2000 + 8, 2000 + 9]
    assert list(removed.finish_ps) == [sum(steps[:2]), sum(steps)]
    _, padded = played(two, "static", cost, batching__pad_to_longest=True)
    steps = [11 * (6 + 6), 2000 + 7 + 7, 2000 + 8 + 8, 2000 + 9 + 9]
    assert list(padded.finish_ps) == [sum(steps[:2]), sum(steps)]


# ---- token budget -----------------------------------------------------------------------------


def test_few_wait_until_the_running_ones_have_made_some_tokens() -> None:
    """Half of 4 must wait, or 4 decodes have passed since the last prefill."""
    four = [(0, 2, 10)] * 4
    rules: dict[str, Any] = {
        "batching__waiting_served_ratio": 0.5,
        "batching__max_waiting_tokens": 4,
    }
    all_four = "0+1 1+1 2+1 3+1"
    lines = plan_of(make_trace(*four, (1, 3, 9)), "token-budget", **rules, num_gpu_blocks=60)
    assert lines[:6] == [
        "0: 0+2 1+2 2+2 3+2",
        *(f"{time}: {all_four}" for time in (1, 2, 3)),
        "4: 4+3",
        f"5: {all_four} 4+1",
    ]
    two_more = make_trace(*four, (1, 3, 9), (2, 5, 9))
    lines = plan_of(two_more, "token-budget", **rules, num_gpu_blocks=60)
    assert lines[1:4] == [f"1: {all_four}", "2: 4+3 5+5", f"3: {all_four} 4+1 5+1"]


def test_a_decode_follows_each_prefill_that_joined() -> None:
    """The first prefill may be followed by one more, as the queue is asked before a decode."""
    trace = make_trace((0, 3, 5), (1, 4, 5), (2, 5, 5))
    lines = plan_of(trace, "token-budget", num_gpu_blocks=60)
    assert lines[:4] == ["0: 0+3", "1: 1+4", "2: 0+1 1+1", "3: 2+5"]


def test_the_total_budget_counts_answers_to_their_end() -> None:
    """24 tokens: 6 + 10 in blocks are 16 (15 are written); 4 + 5 is one too many beside them."""
    rules: dict[str, Any] = {"batching__max_batch_total_tokens": 24, "num_gpu_blocks": 60}
    lines = plan_of(make_trace((0, 6, 3, 10), (1, 4, 5)), "token-budget", **rules)
    assert lines[:4] == ["0: 0+6", "1: 0+1", "2: 0+1 .0", "3: 1+4"]
    lines = plan_of(make_trace((0, 6, 3, 10), (1, 4, 4)), "token-budget", **rules)
    assert lines[1] == "1: 1+4"


# ---- no evict ---------------------------------------------------------------------------------


def test_a_request_enters_when_its_longest_end_fits_beside_all_others() -> None:
    """10 blocks: (8 + 12) / 4 = 5 and (6 + 12) / 4 -> 5; the third waits although 6 are free."""
    trace = make_trace((0, 8, 3, 12), (0, 6, 3, 12), (0, 2, 1))
    rules: dict[str, Any] = {"max_num_batched_tokens": 20}
    assert plan_of(trace, "no-evict", **rules) == [
        "0: 0+8 1+6",
        "1: 0+1 1+1",
        "2: 0+1 1+1 .0 .1",
        "3: 2+2 .2",
    ]
    assert plan_of(trace, "mixed-running-first", **rules)[0] == "0: 0+8 1+6 2+2 .2"


def test_decodes_go_first_and_chunks_are_whole_blocks() -> None:
    """A budget of 10 leaves 2 for a prompt of 10: no block. Then 1 + 8, then 1 + 2."""
    trace = make_trace((0, 8, 4), (0, 10, 2))
    assert plan_of(trace, "no-evict", max_num_batched_tokens=10) == [
        "0: 0+8",
        "1: 0+1 1+8",
        "2: 0+1 1+2",
        "3: 0+1 1+1 .0 .1",
    ]


def test_a_long_prompt_alone_comes_in_whole_blocks_too() -> None:
    trace = make_trace((0, 25, 2))
    lines = plan_of(trace, "no-evict", max_num_batched_tokens=10)
    assert lines == ["0: 0+8", "1: 0+8", "2: 0+9", "3: 0+1 .0"]


def test_what_no_empty_pool_promises_is_refused() -> None:
    trace = make_trace((0, 8, 3, 33), (0, 8, 3, 32))
    plan, recorder = played(trace, "no-evict", max_model_len=60)
    assert plan.lines[0] == "0: 1+8"
    assert recorder.refusals == {
        0: "may need 11 blocks if its output is as long as allowed, the pool has 10"
    }
