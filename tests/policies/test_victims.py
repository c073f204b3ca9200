"""One behaviour suite for every victim, and each worked out by hand, with ties."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.policies.allocators.paged import PagedAllocator
from kvsim.policies.batching import SchedulerState
from kvsim.policies.context import PolicyContext
from kvsim.policies.preemption import VICTIMS
from kvsim.policies.queue_order import QUEUE_ORDERS
from kvsim.policies.registry import build
from kvsim.policies.sequence import Sequence
from tests.engine_config import engine_config

if TYPE_CHECKING:
    from collections.abc import Mapping

BLOCK_SIZE = 4


class Guesses:
    """Predicts what it is told to, and never more than one token too few."""

    name = "guesses"
    uses_oracle = False
    predicts = True

    def __init__(self, tokens: Mapping[int, int]) -> None:
        self._tokens = tokens

    def output_tokens(self, sequence: Sequence) -> int:
        return max(self._tokens[sequence.index], sequence.num_tokens - sequence.prompt_tokens + 1)

    def finished(self, sequence: Sequence) -> None:
        raise NotImplementedError


def make_state(
    *rows: tuple[int, int, int, int], guesses: tuple[int, ...] = (), policy: str = "fcfs"
) -> SchedulerState:
    """Running sequences of (prompt, generated, priority, arrival), all but one token computed."""
    config = engine_config(block_size=BLOCK_SIZE, num_gpu_blocks=200, queue__policy=policy)
    known = dict(enumerate(guesses)) or dict.fromkeys(range(len(rows)), 50)
    context = PolicyContext(config, predictor=Guesses(known))
    state = SchedulerState(
        context,
        PagedAllocator(config),
        build(QUEUE_ORDERS.find(policy), context),
        VICTIMS.find("last"),
    )
    for index, (prompt, generated, priority, arrival_ps) in enumerate(rows):
        sequence = Sequence(index, f"r{index}", arrival_ps, prompt, 50, priority, ())
        sequence.num_tokens += generated
        tokens = sequence.num_tokens - 1
        state.allocator.admit(sequence, state.allocator.find_hit(sequence), tokens)
        sequence.num_computed_tokens = tokens
        state.running.append(sequence)
    return state


def victim_of(name: str, state: SchedulerState) -> int:
    return VICTIMS.find(name)(state.running, state).index


ROWS = st.tuples(st.integers(2, 20), st.integers(0, 9), st.integers(0, 2), st.integers(0, 3))


@pytest.mark.parametrize("name", sorted(VICTIMS.builtins))
class TestEveryVictim:
    def test_alone_it_is_itself(self, name: str) -> None:
        assert victim_of(name, make_state((5, 2, 0, 0))) == 0

    @given(rows=st.lists(ROWS, min_size=1, max_size=6))
    def test_is_one_of_those_that_run_and_changes_nothing(
        self, name: str, rows: list[tuple[int, int, int, int]]
    ) -> None:
        state = make_state(*rows)
        before = [
            (s.index, s.num_tokens, s.num_computed_tokens, s.num_preemptions) for s in state.running
        ]
        chosen = victim_of(name, state)
        assert chosen in range(len(rows))
        assert victim_of(name, state) == chosen
        assert [
            (s.index, s.num_tokens, s.num_computed_tokens, s.num_preemptions) for s in state.running
        ] == before
        state.allocator.check_invariants()

    @given(rows=st.lists(ROWS, min_size=2, max_size=6), extra=st.integers(1, 40))
    def test_does_not_know_what_the_client_allowed(
        self, name: str, rows: list[tuple[int, int, int, int]], extra: int
    ) -> None:
        state = make_state(*rows)
        chosen = victim_of(name, state)
        for sequence in state.running:
            sequence.max_tokens += extra * sequence.index
        assert victim_of(name, state) == chosen


#            prompt, generated, priority, arrival       computed, blocks
TABLE = (
    (9, 3, 1, 3),  # r0                                 11, 3
    (5, 7, 2, 3),  # r1                                 11, 3
    (6, 2, 2, 5),  # r2                                 7, 2
    (4, 2, 2, 5),  # r3                                 5, 2
    (3, 4, 0, 9),  # r4                                 6, 2
)


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("by-queue", 4),
        ("last", 4),
        ("first", 0),
        ("least-progress", 3),  # r2 and r3 generated 2, r3 has computed less
        ("most-blocks", 1),  # r0 and r1 hold 3, r1 came later
        ("lowest-priority", 2),  # r2 and r3 are equal: the first of them (vLLM)
        ("most-remaining", 2),  # 14 - 2, as r1 has 19 - 7: r2 came later
    ],
)
def test_by_hand(name: str, chosen: int) -> None:
    assert victim_of(name, make_state(*TABLE, guesses=(10, 19, 14, 13, 6))) == chosen


def test_by_queue_goes_by_priority_where_the_queue_does() -> None:
    assert victim_of("by-queue", make_state(*TABLE, policy="priority")) == 2


def test_equals_are_taken_from_the_end() -> None:
    for name in ("least-progress", "most-blocks", "most-remaining"):
        assert victim_of(name, make_state(*[(5, 2, 0, 0)] * 3)) == 2, name


def test_most_remaining_hears_the_predictor_alone() -> None:
    state = make_state(*TABLE, guesses=(9, 9, 9, 9, 40))
    assert victim_of("most-remaining", state) == 4
    state.context = replace(state.context, predictor=Guesses({0: 40, 1: 9, 2: 9, 3: 9, 4: 9}))
    assert victim_of("most-remaining", state) == 0


def test_most_remaining_refuses_the_predictor_that_predicts_nothing() -> None:
    state = make_state(*TABLE)
    state.context = PolicyContext(state.config)
    with pytest.raises(ValueError, match="'none' predicts nothing; choose another predictor"):
        victim_of("most-remaining", state)
