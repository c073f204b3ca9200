"""Queue orders and predictors inside a run: who enters when, seeds, what the summary tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.cli.text.summary_table import summary_lines
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.engine.requests import Requests
from kvsim.sim.run.run import simulate
from kvsim.sim.scenario.scenario import Scenario
from kvsim.traces.trace.trace import PrefixIds, Trace
from tests.engine_config import engine_config
from tests.engine_run import run

if TYPE_CHECKING:
    from kvsim.sim.run.run import Run

US = 10**6  # one microsecond in ps: the length of every step


def make_trace(
    *rows: tuple[int, int, int],
    session: list[str] | None = None,
    ids: list[list[int]] | None = None,
) -> Trace:
    """Rows of (arrival in us, prompt, output); ids of 4 tokens cover prompts."""
    arrival, prompt, output = np.array(rows, dtype=np.int64).T
    prefix = None
    if ids is not None:
        offsets = np.cumsum([0, *map(len, ids)])
        flat = np.array([value for one in ids for value in one], dtype=np.int64)
        prefix = PrefixIds(4, offsets, flat)
    return Trace("hand-made", arrival * 1000, prompt, output, session=session, prefix=prefix)


def order_of_entry(trace: Trace, **rules: object) -> list[int]:
    """Requests in the order in which they enter an engine of one seat."""
    defaults = {"block_size": 4, "num_gpu_blocks": 101, "max_model_len": 200, "max_num_seqs": 1}
    config = engine_config(**(defaults | rules))
    max_tokens = np.full(len(trace), 100)
    done = run(trace, config, LinearCost(US), max_tokens=max_tokens, audit=True)
    starts = list(done.recorder.first_scheduled_ps)
    return sorted(range(len(trace)), key=starts.__getitem__)


def test_shortest_job_first_by_the_truth() -> None:
    trace = make_trace((0, 4, 30), (1, 4, 20), (2, 4, 5), (3, 4, 9))
    assert order_of_entry(trace) == [0, 1, 2, 3]
    assert order_of_entry(trace, queue__policy="sjf", predictor__kind="oracle") == [0, 2, 3, 1]
    assert order_of_entry(trace, queue__policy="sjf", predictor__kind="max_tokens") == [0, 1, 2, 3]


def test_longest_prefix_match_takes_who_hits() -> None:
    ids = [[1, 2], [3, 4], [1, 2]]
    trace = make_trace((0, 8, 3), (1, 8, 3), (2, 8, 3), ids=ids)
    assert order_of_entry(trace) == [0, 1, 2]
    lpm: dict[str, object] = {"queue__policy": "longest-prefix-match"}
    assert order_of_entry(trace, **lpm) == [0, 2, 1]
    assert order_of_entry(trace, **lpm, enable_prefix_caching=False) == [0, 1, 2]
    assert order_of_entry(trace, **lpm, queue__lpm_max_waiting=1) == [0, 1, 2]


def test_fair_takes_turns() -> None:
    rows = [(0, 10, 3)] * 4
    trace = make_trace(*rows, session=["ann", "ann", "ann", "bob"])
    assert order_of_entry(trace, queue__policy="fair", queue__quantum=10) == [0, 3, 1, 2]


def test_a_user_is_the_session_or_the_request_itself() -> None:
    trace = make_trace((0, 4, 1), (0, 4, 1), session=["ann", ""])
    requests = Requests(trace, SchedulerConfig(), trace.output_tokens)
    assert [requests.sequence(index).user for index in (0, 1)] == ["ann", "r0001"]
    trace.session = None
    assert requests.sequence(0).user == "r0000"


def test_a_user_comes_before_the_session() -> None:
    trace = make_trace(*[(0, 4, 1)] * 3, session=["s", "s", "s"])
    trace.user = ["ann", "bob", ""]
    requests = Requests(trace, SchedulerConfig(), trace.output_tokens)
    assert [requests.sequence(index).user for index in range(3)] == ["ann", "bob", "s"]


def test_fair_shares_among_users_however_many_sessions_they_open() -> None:
    trace = make_trace(*[(0, 10, 3)] * 5, session=["a", "b", "c", "d", "e"])
    trace.user = ["ann", "ann", "ann", "bob", "bob"]
    fair: dict[str, object] = {"queue__policy": "fair", "queue__quantum": 10}
    assert order_of_entry(trace, **fair) == [0, 3, 1, 4, 2]
    trace.user = None
    assert order_of_entry(trace, **fair) == [0, 1, 2, 3, 4]


def by_hand(users: list[str], prompts: list[int], quantum: int) -> list[int]:
    """Deficit round robin over requests that all wait from the start, turn after turn."""
    waiting: dict[str, list[int]] = {}
    for index, user in enumerate(users):
        waiting.setdefault(user, []).append(index)
    deficit, order = dict.fromkeys(waiting, 0), list[int]()
    while waiting:
        for user in list(waiting):
            deficit[user] += quantum
            while waiting[user] and prompts[waiting[user][0]] <= deficit[user]:
                deficit[user] -= prompts[waiting[user][0]]
                order.append(waiting[user].pop(0))
            if not waiting[user]:
                del waiting[user]
    return order


@given(
    requests=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(1, 90)), min_size=1, max_size=12
    ),
    quantum=st.integers(1, 120),
)
def test_a_run_under_fair_is_deficit_round_robin_by_user(
    requests: list[tuple[str, int]], quantum: int
) -> None:
    users, prompts = [user for user, _ in requests], [prompt for _, prompt in requests]
    trace = make_trace(*((0, prompt, 3) for prompt in prompts), session=["s"] * len(requests))
    trace.user = users
    entered = order_of_entry(trace, queue__policy="fair", queue__quantum=quantum)
    assert entered == by_hand(users, prompts, quantum)


@pytest.mark.parametrize(
    ("user", "session", "told"),
    [
        (["a", "b", "a"], ["s", "s", "s"], "2 users"),
        (None, ["s", "t", "s"], "2 sessions"),
        (["a", "", ""], ["s", "s", ""], "1 user, 1 session, 1 nameless request"),
    ],
)
def test_the_summary_says_among_whom_fair_shares(
    user: list[str] | None, session: list[str], told: str
) -> None:
    trace = make_trace(*[(0, 10, 3)] * 3, session=session)
    trace.user = user
    notes = simulate(trace, Scenario().with_values({"queue.policy": "fair"})).summary.notes
    assert f"queue.policy = 'fair' shares among {told}" in notes
    assert "fair" not in str(simulate(trace).summary.notes)


def simulated(kind: str, seed: int = 0, order: str = "sjf") -> Run:
    trace = make_trace(
        *((3 * index, 40 + 17 * index % 60, 2 + 7 * index % 50) for index in range(60))
    )
    values: dict[str, object] = {
        "predictor.kind": kind,
        "queue.policy": order,
        "engine.max_num_seqs": 2,
        "engine.num_gpu_blocks_override": 400,
        "engine.max_model_len": 4096,
        "cost.source": "linear",
        "cost.base": "100us",
    }
    return simulate(trace, Scenario().with_values(values), seed=seed, audit=True)


def test_the_runs_seed_is_the_noises() -> None:
    first, again, other = (simulated("noisy", seed) for seed in (1, 1, 2))
    assert first.summary == again.summary
    guesses = [run.requests["predicted_tokens"].tolist() for run in (first, again, other)]
    assert guesses[0] == guesses[1] != guesses[2]


def test_every_policy_meets_the_same_errors() -> None:
    sjf, fcfs = simulated("noisy"), simulated("noisy", order="fcfs")
    assert sjf.requests["queue_s"].tolist() != fcfs.requests["queue_s"].tolist()
    assert sjf.requests["predicted_tokens"].tolist() == fcfs.requests["predicted_tokens"].tolist()


@pytest.mark.parametrize("kind", ["oracle", "quantile"])
def test_the_summary_tells_how_good_the_guesses_were(kind: str) -> None:
    done = simulated(kind)
    prediction, queue = done.summary.prediction, done.summary.queue
    assert prediction is not None
    assert prediction.num == 60
    right = (prediction.over_percent, prediction.under_percent) == (0, 0)
    assert right == (kind == "oracle")
    assert queue.most_overtaken > 0
    text = "\n".join(summary_lines(done.summary, ()))
    assert f"predicted lengths       {kind}: rank correlation" in text
    assert f"overtaken by up to {queue.most_overtaken} later arrivals" in text
    assert ("uses oracle knowledge" in text) == (kind == "oracle")
