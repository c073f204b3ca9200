"""Room kept for predicted answers: by hand, and what it promises inside a run."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from kvsim.policies.allocators import make_allocator
from kvsim.policies.batching import SchedulerState
from kvsim.policies.batching.predicted_room import lacks_predicted_room
from kvsim.policies.context import PolicyContext
from kvsim.policies.predictor import MaxTokens
from kvsim.policies.preemption.victims import last
from kvsim.policies.queue_order import FCFS
from kvsim.policies.sequence import Sequence
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.traces.trace.trace import Trace
from tests.engine_config import engine_config
from tests.engine_run import run


def make_state(num_blocks: int, *running: Sequence, **rules: object) -> SchedulerState:
    """Blocks of 4 tokens; the running sequences hold their whole prompts."""
    defaults = {
        "block_size": 4,
        "num_gpu_blocks": num_blocks + 1,
        "predictor__kind": "max_tokens",
        "batching__reserve_predicted_output": True,
    }
    config = engine_config(**(defaults | rules))
    context = PolicyContext(config)
    context = PolicyContext(config, MaxTokens(context))
    state = SchedulerState(context, make_allocator(context), FCFS(), last)
    for sequence in running:
        hit = state.allocator.find_hit(sequence)
        state.allocator.admit(sequence, hit, sequence.num_tokens)
        state.running.append(sequence)
        sequence.num_computed_tokens = sequence.num_tokens
    return state


def make_sequence(index: int, prompt: int, output: int) -> Sequence:
    return Sequence(index, f"r{index}", 0, prompt, output, 0, ())


@pytest.mark.parametrize(("num_blocks", "lacks"), [(9, True), (10, False)])
def test_whole_blocks_of_all_that_will_be_held(num_blocks: int, lacks: bool) -> None:
    """Running: 6 + 11 - 1 slots are 4 blocks, 4 + 6 - 1 are 3; candidate: 5 + 8 - 1 are 3."""
    state = make_state(num_blocks, make_sequence(0, 6, 11), make_sequence(1, 4, 6))
    assert lacks_predicted_room(state, make_sequence(2, 5, 8)) == lacks


def test_where_nothing_runs_anybody_enters() -> None:
    assert not lacks_predicted_room(make_state(3), make_sequence(0, 8, 100))


def test_it_is_off_unless_asked_for() -> None:
    state = make_state(4, make_sequence(0, 6, 99), batching__reserve_predicted_output=False)
    assert not lacks_predicted_room(state, make_sequence(1, 5, 99))


@pytest.mark.parametrize("in_flight", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_with_the_bound_as_prediction_nobody_is_preempted(seed: int, in_flight: int) -> None:
    rnd = Random(seed)
    num = 40
    trace = Trace(
        "burst",
        np.zeros(num, dtype=np.int64),
        np.array([rnd.randint(1, 40) for _ in range(num)]),
        np.array([rnd.randint(1, 60) for _ in range(num)]),
    )
    preempted = {}
    for keeps in (False, True):
        config = engine_config(
            block_size=4,
            num_gpu_blocks=41,
            max_model_len=120,
            max_num_batched_tokens=64,
            max_num_seqs=16,
            async_scheduling=in_flight == 2,
            predictor__kind="max_tokens",
            batching__reserve_predicted_output=keeps,
        )
        max_tokens = np.maximum(trace.output_tokens, 60)
        done = run(trace, config, LinearCost(1000), max_tokens=max_tokens, audit=True)
        preempted[keeps] = done.recorder.num_preemptions
    assert preempted[True] == 0 < preempted[False]
