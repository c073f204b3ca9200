"""Every picosecond of a time to first token is booked once."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.sim.conformance.random_scenario import RandomScenario, random_scenario
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.explain.ttft_parts import PARTS, TtftParts
from kvsim.sim.recording.waiting_clock import CAUSES
from kvsim.traces.trace.trace import Trace
from tests.engine_config import engine_config
from tests.engine_run import run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.sim.recording.recorder import Recorder

US = 1_000_000  # a step of the worked examples: 1 us a token, in ps


def parts_of(scenario: RandomScenario) -> tuple[NDArray[np.int64], Recorder]:
    trace, config, cost, max_tokens = scenario
    parts = TtftParts(len(trace))
    recorder = run(trace, config, cost, max_tokens=max_tokens, listener=parts).recorder
    return parts.table(recorder), recorder


@pytest.mark.parametrize("seed", range(0, 120, 10))
def test_parts_add_up_to_the_whole(seed: int) -> None:
    for one in range(seed, seed + 10):
        table, recorder = parts_of(random_scenario(Random(one)))
        assert recorder.arrival_ps is not None
        first = np.array(recorder.first_token_ps)
        there = first >= 0
        assert (table[~there] == -1).all()
        assert (table[there] >= 0).all()
        ttft = first - np.array(recorder.arrival_ps)
        assert table[there].sum(axis=1).tolist() == ttft[there].tolist()
        if not recorder.num_preemptions and there.all():
            waited = table[:, : len(CAUSES)].sum(axis=0).tolist()
            assert waited == list(recorder.waited_ps.values())


def scenario(
    arrivals_us: list[int], prompts: list[int], outputs: list[int], **rules: object
) -> RandomScenario:
    """Steps last 1 us for each token computed in them."""
    config = engine_config(max_model_len=1000, **rules)
    times, lengths, answers = (np.array(v, np.int64) for v in (arrivals_us, prompts, outputs))
    trace = Trace("by hand", times * 1000, lengths, answers)
    cost = LinearCost(0, per_prefill_token_ps=US, per_decode_seq_ps=US)
    return RandomScenario(trace, config, cost, answers)


def us(table: NDArray[np.int64], index: int) -> dict[str, int]:
    row = zip(PARTS, (table[index] // US).tolist(), strict=True)
    return {name: value for name, value in row if value}


def test_a_seat_is_waited_for_and_chunks_wait_for_the_budget() -> None:
    """Step 1 (0-10 us): A's 10. Then steps of A's decode and B's first chunk of 9, twice."""
    table, _ = parts_of(
        scenario([0, 4], [10, 15], [5, 1], max_num_batched_tokens=10, max_num_seqs=2)
    )
    assert us(table, 0) == {"prefill": 10}
    assert us(table, 1) == {"queue: step": 6, "prefill": 10 + 7}
    table, _ = parts_of(scenario([0, 4, 5], [10, 3, 3], [3, 1, 1], max_num_seqs=1))
    assert us(table, 1) == {"queue: step": 6, "queue: max_num_seqs": 2, "prefill": 3}
    assert us(table, 2) == {"queue: step": 5, "queue: max_num_seqs": 5, "prefill": 3}
