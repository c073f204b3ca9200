"""Work done alone lasts what the step cost says, step by step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig
from kvsim.sim.cost.profile import MeasuredRanges
from kvsim.sim.cost.profile_cost import GroupAttention, ProfileCost, TokenCost
from kvsim.sim.cost.step_cost import LinearCost, StepCost
from kvsim.sim.engine.cost_for_policies import StepWorkCost

LINEAR = LinearCost(1000, per_prefill_token_ps=10, per_decode_seq_ps=7, per_context_token_ps=2)


def calibrated(*, overlap: bool, window: int | None = None) -> ProfileCost:
    """Attention overtakes the host at a context of 100, and 40 to 90 were measured."""
    return ProfileCost(
        name="made up",
        overlap=overlap,
        host_ps=500,
        host_per_request_ps=0,
        gemm=TokenCost(((300, 1),)),
        all_reduce=TokenCost(((0, 0),)),
        attention=(GroupAttention(0, 0, 2, 5, 1, 3, 2, 1000, 0, 2, window=window),),
        head=TokenCost(((0, 0),)),
        measured=MeasuredRanges(batch=(1, 4), total_context=(40, 90), step_tokens=(1, 64)),
    )


def test_by_hand() -> None:
    work = StepWorkCost(LINEAR, SchedulerConfig())
    assert work.prefill_ps(5, 20) == 1000 + 5 * 10 + 25 * 2
    assert work.prefill_ps(0, 20) == 0
    assert work.decode_ps(3, 11) == 3 * 1007 + (11 + 12 + 13) * 2
    assert work.decode_ps(0, 11) == 0


@pytest.mark.parametrize("cost", [LINEAR, calibrated(overlap=False), calibrated(overlap=True)])
@given(num_tokens=st.integers(0, 300), context=st.integers(1, 200))
def test_decodes_are_the_sum_of_their_steps(cost: StepCost, num_tokens: int, context: int) -> None:
    steps = [cost.step((), 1, context + number)[0] for number in range(num_tokens)]
    assert StepWorkCost(cost, SchedulerConfig()).decode_ps(num_tokens, context) == sum(steps)


def test_a_window_bounds_what_a_decode_reads() -> None:
    config = SchedulerConfig(kv_groups=(KVGroup(sliding_window=10),))
    work = StepWorkCost(calibrated(overlap=False, window=10), config)
    assert work.decode_ps(4, 8) == 4 * 801 + 2 * (8 + 9 + 10 + 10)
