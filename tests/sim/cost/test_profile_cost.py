"""The calibrated cost: closed form of decode runs, ranges, host and device, windows."""

import dataclasses
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.sim.cost.profile import MeasuredRanges
from kvsim.sim.cost.profile_cost import GroupAttention, ProfileCost, TokenCost

if TYPE_CHECKING:
    from kvsim.sim.cost.step_cost import StepCost

FAR = 200


def make_group(**changes: int | None) -> GroupAttention:
    values: dict[str, int | None] = dict.fromkeys(GroupAttention._fields, 0)
    values["window"] = None
    values.update(changes)
    return GroupAttention(**values)  # type: ignore[arg-type]


def make_cost(**changes: object) -> ProfileCost:
    values: dict[str, object] = {
        "name": "test",
        "overlap": False,
        "host_ps": 0,
        "host_per_request_ps": 0,
        "gemm": TokenCost(((0, 0),)),
        "all_reduce": TokenCost(((0, 0),)),
        "attention": (make_group(),),
        "head": TokenCost(((0, 0),)),
        "measured": MeasuredRanges(),
        "copy_per_token_ps": 7,
    }
    values.update(changes)
    return ProfileCost(**values)  # type: ignore[arg-type]


coefficient = st.integers(0, 2000)
pieces = st.lists(st.tuples(coefficient, coefficient), min_size=1, max_size=3).map(tuple)
span = st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: (min(pair), max(pair)))
groups = st.builds(
    GroupAttention,
    **dict.fromkeys(GroupAttention._fields[:-2], st.integers(0, 40)),
    window=st.sampled_from([None, 8]),
    window_index=st.just(0),
)
knots = st.lists(
    st.tuples(st.integers(0, 40), coefficient), min_size=2, max_size=4, unique_by=lambda k: k[0]
)
plain_costs = st.builds(TokenCost, pieces, st.just(()), st.just(1), st.just(0))
token_costs = st.one_of(
    st.builds(TokenCost, pieces, st.just(()), st.integers(1, 16), coefficient),
    st.builds(
        TokenCost, st.just(()), knots.map(lambda rows: tuple(sorted(rows))), st.just(1), st.just(0)
    ),
)
costs = st.builds(
    ProfileCost,
    name=st.just("random"),
    overlap=st.booleans(),
    host_ps=st.integers(0, 6000),
    host_per_request_ps=st.integers(0, 50),
    gemm=token_costs,
    all_reduce=plain_costs,
    attention=st.lists(groups, min_size=1, max_size=3).map(tuple),
    head=token_costs,
    copy_per_token_ps=coefficient,
    measured=st.builds(
        MeasuredRanges,
        batch=st.none() | span,
        total_context=st.none()
        | st.tuples(st.integers(0, 300), st.integers(0, 300)).map(sorted).map(tuple),
        step_tokens=st.none() | span,
        prefill_tokens=st.none() | span,
        prefill_past=st.none() | span,
        mixed_decodes=st.none() | span,
    ),
)


@given(costs, st.integers(1, 12), st.integers(1, 400))
def test_a_decode_run_is_the_sum_of_its_steps(
    cost: ProfileCost, num_decodes: int, context: int
) -> None:
    done = 0
    while done < FAR:
        at = context + done * num_decodes
        run = cost.decode_run(num_decodes, at)
        assert run.num_steps is None or run.num_steps >= 1
        length = FAR - done if run.num_steps is None else min(run.num_steps, FAR - done)
        total_ps = 0
        for j in range(length):
            expected = cost.step((), num_decodes, at + j * num_decodes)
            assert (run.first_ps + run.slope_ps * j, run.inside) == expected[:2]
            assert (run.weights_ps, 0) == (expected.weights_ps, expected.prefill_ps)
            assert run.overhead_ps + run.overhead_slope_ps * j == expected.overhead_ps
            assert min(expected.overhead_ps, expected.kv_ps) >= 0
            total_ps += expected[0]
        assert total_ps == length * run.first_ps + run.slope_ps * length * (length - 1) // 2
        done += length


@given(costs, st.integers(1, 12), st.integers(1, 400))
def test_a_run_ends_only_where_something_changes(
    cost: ProfileCost, num_decodes: int, context: int
) -> None:
    run = cost.decode_run(num_decodes, context)
    if run.num_steps is None:
        return
    after = cost.step((), num_decodes, context + run.num_steps * num_decodes)[:2]
    predicted = (run.first_ps + run.slope_ps * run.num_steps, run.inside)
    assert after != predicted or cost.overlap


def test_it_is_a_step_cost_and_an_empty_step_lasts_nothing() -> None:
    cost: StepCost = make_cost(host_ps=5)
    assert cost.step((), 0, 0)[:2] == (0, True)


def test_synchronous_pays_the_sum_and_asynchronous_the_larger() -> None:
    sync = make_cost(host_ps=7, host_per_request_ps=2, head=TokenCost(((10, 1),)))
    overlapped = dataclasses.replace(sync, overlap=True)
    assert sync.step((), 3, 30)[0] == 13 + 13
    assert overlapped.step((), 3, 30)[0] == 13
    assert overlapped.step((), 1, 10)[0] == 11


def test_the_run_of_an_asynchronous_engine_ends_where_the_device_overtakes() -> None:
    cost = make_cost(host_ps=100, overlap=True, attention=(make_group(decode_per_context_ps=1),))
    assert cost.decode_run(10, 50)[:3] == (100, 0, 6)
    assert cost.decode_run(10, 110)[:3] == (110, 10, None)


def test_ranges_cut_a_run_so_that_inside_is_one_answer() -> None:
    measured = MeasuredRanges(batch=(1, 8), total_context=(20, 40), step_tokens=(1, 8))
    cost = make_cost(measured=measured)
    assert cost.decode_run(5, 8)[2:4] == (3, False)
    assert cost.decode_run(5, 23)[2:4] == (4, True)
    assert cost.decode_run(5, 41)[2:4] == (None, False)
    assert cost.decode_run(9, 30)[2:4] == (None, False)
    assert not cost.step([(4, 0)], 0, 0)[1], "prefill was not measured"


def test_past_and_mixed_steps_have_ranges_of_their_own() -> None:
    measured = MeasuredRanges(
        batch=(1, 8), total_context=(1, 99), step_tokens=(1, 8), prefill_tokens=(1, 20),
        prefill_past=(0, 10), mixed_decodes=(1, 2),
    )  # fmt: skip
    cost = make_cost(measured=measured)
    assert cost.step([(4, 10)], 2, 50)[1]
    assert not cost.step([(4, 11)], 2, 50)[1]
    assert not cost.step([(4, 10)], 3, 50)[1]
    assert cost.step((), 3, 50)[1]


def test_each_term_of_a_mixed_step() -> None:
    group = make_group(
        decode_ps=10**9,
        reach_ps=1,
        reach_per_token_ps=1,
        reach_per_request_ps=90,
        reach_per_past_ps=2,
        base_ps=2,
        per_token_ps=3,
        area_fs=500,
        mixed_per_request_ps=5,
        mixed_per_context_ps=7,
    )
    cost = make_cost(attention=(group,), gemm=TokenCost(((100, 1), (0, 10))))
    prefill = max(1 + 90 + (20 + 4) + 2 * 20, 2 + 3 * 4 + (2 * 4 * 20 + 16) // 2)
    assert prefill == 155
    gemm = max(100 + 6, 10 * 6)
    assert cost.step([(4, 20)], 2, 50)[0] == gemm + prefill + 5 * 2 + 7 * 50
    both = max(1 + 2 * 90 + (20 + 4 + 1) + 2 * 20, 2 + 3 * 5 + (2 * 4 * 20 + 16 + 1) // 2)
    assert both == 246
    assert cost.step([(4, 20), (1, 0)], 0, 0)[0] == 105 + both, "one call, one floor"


def test_a_window_charges_its_own_context_in_a_step() -> None:
    full = make_group(decode_per_context_ps=1)
    windowed = make_group(decode_per_context_ps=100, window=16, window_index=0)
    other = make_group(decode_per_context_ps=10_000, window=8, window_index=1)
    cost = make_cost(attention=(full, windowed, other))
    assert cost.step((), 2, 60, (32, 16))[0] == 60 + 3200 + 160_000
    assert cost.step((), 2, 60)[0] == 60 + 6000 + 600_000


@pytest.mark.parametrize(
    ("chunk", "past", "doubled_area"),
    [
        (4, 0, 16),
        (4, 4, 48),
        (4, 6, 2 * (6 + 1 + 7 + 1) + 2 * 2 * 8 - 2),
        (4, 20, 64),
        (12, 0, 128),
    ],
)
def test_prefill_under_a_window_of_eight(chunk: int, past: int, doubled_area: int) -> None:
    group = make_group(area_fs=1000, window=8)
    assert group.prefill([(chunk, past)]) == doubled_area


def test_a_table_is_linear_between_knots_and_goes_on_with_its_last_slope() -> None:
    table = TokenCost((), ((1, 100), (11, 200), (21, 250)))
    assert [table.at(n) for n in (1, 2, 11, 16, 21, 31)] == [100, 110, 200, 225, 250, 300]


def test_the_last_piece_pays_for_each_started_tile() -> None:
    cost = TokenCost(((100, 1), (10, 2)), (), 64, 90)
    assert [cost.at(n) for n in (1, 45, 46, 64, 65, 128)] == [
        102, 10 + 90 + 90, 10 + 92 + 90, 10 + 128 + 90, 10 + 130 + 180, 10 + 256 + 180,
    ]  # fmt: skip
    assert cost.later(7).at(65) == cost.at(65) + 7


def test_overhead_on_top_of_a_term_moves_pieces_and_tables_alike() -> None:
    term = TokenCost(((10, 1), (4, 3))).later(5)
    table = TokenCost((), ((1, 10), (4, 40))).later(5)
    assert [term.at(n) for n in (1, 8)] == [16, 33]
    assert [table.at(n) for n in (1, 2, 6)] == [15, 25, 65]
