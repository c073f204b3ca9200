"""Recompute, swap, and how `auto` weighs, judges and learns: by hand."""

from __future__ import annotations

import pytest

from kvsim.policies.context import PolicyContext
from kvsim.policies.preemption import MODES, PreemptionMode
from kvsim.policies.preemption.auto import Auto
from kvsim.policies.preemption.mode import Judgement
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.policies.sequence import Sequence
from tests.engine_config import engine_config


class Work:
    """10 ps a step and 1 ps a token, however long the past."""

    def prefill_ps(self, num_tokens: int, past: int) -> int:
        assert num_tokens > 0
        return 10 + num_tokens

    def decode_ps(self, num_tokens: int, context: int) -> int:
        raise NotImplementedError


class Link:
    """One way, ps a block."""

    def __init__(self, block_ps: int) -> None:
        self.block_ps = block_ps

    def copy_ps(self, num_blocks: int) -> int:
        return num_blocks * self.block_ps


def make_mode(
    name: str, *, block_ps: int = 1, caching: bool = True, host: int = 10
) -> PreemptionMode:
    config = engine_config(
        block_size=4,
        max_num_batched_tokens=16,
        enable_prefix_caching=caching,
        preemption__mode=name,
        num_host_blocks=host,
    )
    return MODES[name](PolicyContext(config, cost=Work(), link=Link(block_ps)))


def make_victim(num_computed_tokens: int, index: int = 0) -> Sequence:
    """A decoding sequence; its last known token is not computed."""
    sequence = Sequence(index, f"r{index}", 0, 3, 99, 0, ())
    sequence.num_tokens, sequence.num_computed_tokens = num_computed_tokens + 1, num_computed_tokens
    return sequence


@pytest.mark.parametrize("name", sorted(MODES))
class TestEveryMode:
    def test_a_full_host_takes_nobody(self, name: str) -> None:
        mode = make_mode(name, host=2)
        assert not mode.swaps(make_victim(9), 3)
        assert mode.num_host_full == (name in {"swap", "auto"})
        assert mode.returned(make_victim(9), 0) is None

    def test_the_mode_itself_takes_no_room(self, name: str) -> None:
        mode = make_mode(name, caching=False)
        for index in range(20):
            mode.swaps(make_victim(9, index), 3)
        assert mode.host.num_used == 0


def test_groups_swap_and_single_sequences_recompute() -> None:
    group, mode = make_victim(9), make_mode("swap-groups", host=3)
    group.width = 2
    assert not mode.swaps(make_victim(9), 3)
    assert mode.swaps(group, 3)
    assert not mode.swaps(group, 4)
    assert mode.num_host_full == 1


def test_recompute_never_and_swap_always() -> None:
    assert not make_mode("recompute").swaps(make_victim(1), 1)
    assert make_mode("swap", block_ps=10**6).swaps(make_victim(1), 1)


def test_auto_weighs_copies_both_ways_against_what_is_done_twice() -> None:
    # 9 of 10 known tokens computed, 3 blocks. Again: 10 tokens in one step (20), of which the
    # last one is due either way (11): 9 ps more. Copies: 2 x 3 blocks.
    assert make_mode("auto", block_ps=1, caching=False).swaps(make_victim(9), 3)
    assert not make_mode("auto", block_ps=2, caching=False).swaps(make_victim(9), 3)


def test_auto_recomputes_in_chunks_of_the_budget() -> None:
    # 33 tokens in steps of 16, 16 and 1 (26 + 26 + 11), less the last one's (11): 52 ps
    assert make_mode("auto", block_ps=2, caching=False).swaps(make_victim(32), 8)  # 32 ps
    assert make_mode("auto", block_ps=3, caching=False).swaps(make_victim(32), 8)  # 48 ps
    assert not make_mode("auto", block_ps=4, caching=False).swaps(make_victim(32), 8)  # 64 ps


def test_a_tie_is_computed_again() -> None:
    # 12 of 13 known tokens: 23 - 11 = 12 ps again; 2 x 3 blocks x 2 ps = 12 ps to copy
    assert not make_mode("auto", block_ps=2, caching=False).swaps(make_victim(12), 3)


def test_auto_learns_what_the_cache_keeps_of_victims() -> None:
    mode = make_mode("auto", block_ps=1)
    # at first all full blocks are expected to be found: 8 of 9 tokens hit, 1 ps again
    assert not mode.swaps(make_victim(9), 3)
    # nothing was there any more: 9 ps again, 6 ps to copy
    assert mode.returned(make_victim(9), 0) == Judgement(swapped=False, right=False)
    assert mode.swaps(make_victim(9), 3)  # none is expected now
    # all was there this time
    assert mode.returned(make_victim(9), 8) == Judgement(swapped=True, right=False)
    # half of the full blocks from now on: 12 / 2 = 6, and whole blocks only: 4 of 13 tokens hit,
    # 10 + 9 - 11 = 8 ps again, 3 blocks there and back are 6
    assert mode.swaps(make_victim(12), 3)
    assert mode.returned(make_victim(12), 4) == Judgement(swapped=True, right=True)


def test_a_hit_beyond_what_was_computed_costs_nothing() -> None:
    mode = make_mode("auto", block_ps=1)
    victim = make_victim(9)
    victim.num_tokens = 15  # preempted in its prefill
    assert not mode.swaps(victim, 3)
    assert mode.returned(victim, 12) == Judgement(swapped=False, right=True)


def test_equal_costs_are_right_either_way() -> None:
    mode = make_mode("auto", block_ps=2)
    assert not mode.swaps(make_victim(12), 3)
    assert mode.returned(make_victim(12), 0) == Judgement(swapped=False, right=True)


def test_a_choice_is_judged_once() -> None:
    mode = make_mode("auto", block_ps=1, caching=False)
    mode.swaps(make_victim(9), 3)
    assert mode.returned(make_victim(9), 0) == Judgement(swapped=True, right=True)
    assert mode.returned(make_victim(9), 0) is None


def test_auto_needs_a_cost_and_a_link() -> None:
    with pytest.raises(AssertionError, match="an engine runs"):
        Auto(PolicyContext(SchedulerConfig()))
