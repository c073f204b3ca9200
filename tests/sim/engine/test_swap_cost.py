"""The length from which swapping is quicker than computing again."""

from __future__ import annotations

import pytest

from kvsim.sim.cost.host_link import HostLink
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.cost.swap_or_recompute import swap_cost
from kvsim.sim.pool.layout import BlockLayout
from kvsim.sim.pool.plan import plan
from kvsim.sim.scenario.scenario import Scenario
from kvsim.sim.scenario.setup import pool_request

US = 10**6
REQUEST = pool_request(
    Scenario.load("vllm-0.32").with_values(
        {"engine.max_model_len": 300, "engine.max_num_batched_tokens": 128}
    )
)
LINK = HostLink(10 * US, 10**15, block_bytes=1, copies_per_block=2)  # 40 us a block, both ways


def layout() -> BlockLayout:
    found = plan(REQUEST).layout
    assert isinstance(found, BlockLayout)
    return found


def test_by_hand() -> None:
    # a token again costs 2 us, and 1 ns for each token of its context
    cost = LinearCost(50 * US, per_prefill_token_ps=2 * US, per_context_token_ps=1000)
    found = swap_cost(REQUEST, layout(), LINK, cost)
    assert found.tokens == 300
    assert found.swap_s == pytest.approx(19 * 40e-6)  # 19 blocks of 16 tokens
    # 301 tokens in steps of 128, 128, 45 at contexts of 128, 256, 301, less the last token's step
    again_s = 3 * 50e-6 + 301 * 2e-6 + 685e-9 - (50e-6 + 2e-6 + 301e-9)
    assert found.recompute_s == pytest.approx(again_s)
    assert found.break_even_tokens is None


@pytest.mark.parametrize("token_ns", [1500, 2000, 2200, 2300, 2400, 2600])
def test_the_break_even_is_where_all_longer_ones_pay(token_ns: int) -> None:
    cost = LinearCost(1000 * US, per_prefill_token_ps=token_ns * 1000, per_context_token_ps=900)
    even = swap_cost(REQUEST, layout(), LINK, cost).break_even_tokens
    paying = []
    for blocks in range(1, 19):
        tokens = 16 * blocks
        pieces = [min(128, tokens + 1 - past) for past in range(0, tokens + 1, 128)]
        seen = sum(min(past + 128, tokens + 1) for past in range(0, tokens + 1, 128))
        again_ns = (len(pieces) - 1) * 10**6 + tokens * token_ns + 0.9 * (seen - tokens - 1)
        if 40_000 * blocks <= again_ns:
            paying.append(tokens)
    assert even == paying[0]
    assert paying == list(range(even, 16 * 18 + 1, 16))


def test_swapping_never_pays_where_prefill_costs_nothing() -> None:
    assert swap_cost(REQUEST, layout(), LINK, LinearCost(50 * US)).break_even_tokens is None
