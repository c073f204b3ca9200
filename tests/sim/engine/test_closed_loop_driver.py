"""Closed loops: each turn waits for the answer before it; who gives up frees memory."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.recording.recorder import ABORTED, FINISHED, NEVER_PS, NOT_SENT, REFUSED
from kvsim.traces.adjust.closed_loop import FollowOns, ThinkRule, follow_ons
from kvsim.traces.common.quantities import PS_PER_NS
from kvsim.traces.trace.trace import MorePredecessors, Trace, TraceError
from tests.engine_config import engine_config
from tests.engine_run import run

if TYPE_CHECKING:
    from kvsim.sim.run.drive import EngineRun

COST = LinearCost(1000, 10, 5, 1)  # ps


def loop_of(parent: list[int], delay_ns: list[int]) -> FollowOns:
    return FollowOns(np.array(parent, dtype=np.int64), np.array(delay_ns, dtype=np.int64))


def with_others(loop: FollowOns, others: list[list[int]]) -> FollowOns:
    """The same loop, whose requests wait for the answers to ``others``, too."""
    offsets = np.cumsum([0, *map(len, others)], dtype=np.int64)
    flat = np.array([other for row in others for other in row], dtype=np.int64)
    return loop._replace(also_after=MorePredecessors(offsets, flat))


def trace_of(arrivals: list[int], prompts: list[int], outputs: list[int]) -> Trace:
    made = [np.array(values, dtype=np.int64) for values in (arrivals, prompts, outputs)]
    return Trace("loop", made[0], made[1], made[2])


def make_trace(
    num: int, prompt: int = 20, output: int = 5, arrivals: list[int] | None = None
) -> Trace:
    return trace_of(arrivals or [0] * num, [prompt] * num, [output] * num)


def close(trace: Trace, parent: list[int], delay_ns: list[int], **options: object) -> EngineRun:
    config = engine_config(num_gpu_blocks=400, max_model_len=1024, **options)
    max_tokens = trace.output_tokens if trace.max_tokens is None else trace.max_tokens
    loop = loop_of(parent, delay_ns)
    return run(trace, config, COST, max_tokens=max_tokens, follow_ons=loop, audit=True)


@pytest.mark.parametrize("async_scheduling", [False, True])
def test_a_turn_comes_its_think_time_after_the_answer(async_scheduling: bool) -> None:
    recorder = close(
        make_trace(4), [-1, 0, 1, 2], [0, 7, 0, 123], async_scheduling=async_scheduling
    ).recorder
    assert recorder.arrival_ps is not None
    for turn, delay_ns in ((1, 7), (2, 0), (3, 123)):
        after_ps = recorder.arrival_ps[turn] - recorder.finish_ps[turn - 1]
        assert after_ps == delay_ns * PS_PER_NS
        assert recorder.first_scheduled_ps[turn] == recorder.arrival_ps[turn], "the engine is idle"


def test_an_answer_may_be_followed_by_several() -> None:
    recorder = close(make_trace(4), [-1, 0, 0, 1], [0, 5, 5, 0]).recorder
    assert recorder.arrival_ps is not None
    assert recorder.arrival_ps[1] == recorder.arrival_ps[2] == recorder.finish_ps[0] + 5000
    assert recorder.arrival_ps[3] == recorder.finish_ps[1]


def test_users_take_one_session_after_the_other() -> None:
    trace = make_trace(6)
    config = SchedulerConfig(num_gpu_blocks=400, max_model_len=1024)
    loop = loop_of([-1, -1, -1, 0, 1, 2], [0] * 6)
    recorder = run(
        trace, config, COST, max_tokens=trace.output_tokens, follow_ons=loop, num_users=2
    ).recorder
    assert recorder.arrival_ps is not None
    assert list(recorder.arrival_ps)[:2] == [0, 0]
    first_over_ps = min(recorder.finish_ps[3], recorder.finish_ps[4])
    assert recorder.arrival_ps[2] == first_over_ps
    assert set(recorder.status) == {FINISHED}
    in_system = max(
        sum(recorder.arrival_ps[i] <= t < recorder.finish_ps[i] for i in range(6))
        for t in list(recorder.arrival_ps)
    )
    assert in_system == 2


def test_a_session_ends_with_a_request_that_never_fits() -> None:
    trace = make_trace(3)
    trace.prompt_tokens[1] = 5000
    status = close(trace, [-1, 0, 1], [0, 0, 0]).recorder.status
    assert list(status) == [FINISHED, REFUSED, NOT_SENT]


def random_loop(seed: int) -> tuple[Trace, FollowOns, SchedulerConfig]:
    rnd = Random(seed)
    num = rnd.randint(2, 40)
    arrivals = sorted(rnd.randint(0, 60) for _ in range(num))
    trace = trace_of(
        arrivals,
        [rnd.randint(1, 40) for _ in range(num)],
        [rnd.randint(1, 20) for _ in range(num)],
    )
    parent = [rnd.choice([-1, rnd.randrange(i)]) if i else -1 for i in range(num)]
    delay_ns = [rnd.choice([0, 0, 3, 50]) for _ in range(num)]
    config = SchedulerConfig(
        block_size=4,
        num_gpu_blocks=rnd.randint(18, 60),
        max_num_seqs=rnd.choice([1, 3, 16]),
        max_num_batched_tokens=rnd.choice([16, 64]),
        max_model_len=128,
        async_scheduling=rnd.random() < 0.5,
    )
    return trace, loop_of(parent, delay_ns), config


def with_reservations(config: SchedulerConfig, seed: int) -> SchedulerConfig:
    """Contiguous, in a pool in which some requests get stuck."""
    rnd = Random(seed)
    return engine_config(
        config,
        allocator__kind="contiguous",
        allocator__reservation=rnd.choice(["pow2", "oracle"]),
        allocator__placement=rnd.choice(["buddy", "first-fit", "best-fit"]),
        block_size=1,
        num_gpu_blocks=rnd.randint(30, 150),
        enable_prefix_caching=False,
    )


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("reserves", [False, True])
def test_both_engines_run_the_same_loop(seed: int, reserves: bool) -> None:
    trace, loop, config = random_loop(seed)
    if reserves:
        config = with_reservations(config, seed)
    rnd = Random(seed)
    num_users = rnd.choice([None, 1, 3])
    loop = with_others(
        loop, [[j for j in range(i) if rnd.random() < 0.1] for i in range(len(trace))]
    )
    made = [
        run(
            trace,
            config,
            COST,
            max_tokens=trace.output_tokens,
            follow_ons=loop,
            num_users=num_users,
            step=step,
            audit=True,
        )
        for step in (False, True)
    ]
    leapt, stepped = (result.recorder for result in made)
    assert [result.engine for result in made] == ["leaper", "stepper"]
    assert leapt.arrival_ps is not None
    assert stepped.arrival_ps is not None
    assert list(leapt.arrival_ps) == list(stepped.arrival_ps)
    assert leapt.finish_ps == stepped.finish_ps
    assert leapt.windows == stepped.windows
    assert leapt.waited_ps == stepped.waited_ps


def test_a_turn_waits_for_the_last_of_all_it_follows() -> None:
    trace = trace_of([0] * 5, [20] * 5, [5, 40, 3, 8, 5])
    loop = with_others(loop_of([-1, 0, 0, 0, 3], [0, 0, 0, 0, 7]), [[], [], [], [], [1, 2]])
    config = SchedulerConfig(num_gpu_blocks=400, max_model_len=1024)
    recorder = run(
        trace, config, COST, max_tokens=trace.output_tokens, follow_ons=loop, audit=True
    ).recorder
    assert recorder.arrival_ps is not None
    ends = [recorder.finish_ps[parallel] for parallel in (1, 2, 3)]
    assert ends[0] == max(ends) > ends[2] > ends[1], "the recorded last is not the simulated one"
    assert recorder.arrival_ps[4] == ends[0] + 7 * PS_PER_NS


@pytest.mark.parametrize("seed", range(80))
def test_several_predecessors_against_a_search(seed: int) -> None:
    """Who is sent, and when, follows from the ends of all that each request waits for."""
    trace, loop, config = random_loop(seed)
    rnd = Random(seed)
    others = [[j for j in range(i) if rnd.random() < 0.15] for i in range(len(trace))]
    loop = with_others(loop, others)
    trace.prompt_tokens[[i for i in range(len(trace)) if rnd.random() < 0.05]] = 1000  # refused
    patience = [rnd.choice([-1, -1, -1, 40]) for _ in range(len(trace))]
    trace.timeout_ns = np.array(patience, dtype=np.int64) if rnd.random() < 0.5 else None
    recorder = run(
        trace,
        config,
        COST,
        max_tokens=trace.output_tokens,
        follow_ons=loop,
        num_users=rnd.choice([None, 1, 3]),
        audit=True,
    ).recorder
    assert recorder.arrival_ps is not None
    for index, parent in enumerate(loop.parent.tolist()):
        if parent < 0:
            assert recorder.status[index] != NOT_SENT
            continue
        awaited = {parent, *others[index]}
        sent = all(recorder.status[before] == FINISHED for before in awaited)
        assert (recorder.status[index] != NOT_SENT) == sent
        if sent:
            last_ps = max(recorder.finish_ps[before] for before in awaited)
            due_ps = last_ps + int(loop.delay_ns[index]) * PS_PER_NS
            assert recorder.arrival_ps[index] == due_ps


def test_a_long_session_that_is_refused_at_once_ends_whole() -> None:
    trace = make_trace(5_000, output=1)
    trace.prompt_tokens[0] = 5000
    config = SchedulerConfig(num_gpu_blocks=400, max_model_len=1024)
    loop = loop_of(list(range(-1, 4_999)), [0] * 5_000)
    status = run(
        trace, config, COST, max_tokens=trace.output_tokens, follow_ons=loop
    ).recorder.status
    assert (status[0], set(status[1:])) == (REFUSED, {NOT_SENT})


@pytest.mark.parametrize("async_scheduling", [False, True])
def test_who_gives_up_frees_memory_and_is_counted(async_scheduling: bool) -> None:
    trace = make_trace(6, prompt=60, output=40)
    trace.timeout_ns = np.array([-1, 30, 30, 10**9, 0, -1], dtype=np.int64)
    config = SchedulerConfig(num_gpu_blocks=8, max_model_len=112, async_scheduling=async_scheduling)
    result = run(trace, config, COST, max_tokens=trace.output_tokens, audit=True)
    recorder = result.recorder
    assert (result.engine, result.reason) == ("stepper", "requests with a timeout")
    assert list(recorder.status) == [FINISHED, ABORTED, ABORTED, FINISHED, ABORTED, FINISHED]
    assert recorder.finish_ps[1] >= 30 * PS_PER_NS
    assert recorder.output_tokens[1] < 40
    last_window = max(i for i, ps in enumerate(recorder.windows["window"]) if ps)
    assert recorder.windows["running"][last_window] > 0


@pytest.mark.parametrize("async_scheduling", [False, True])
def test_who_gives_up_in_the_last_step_gets_no_answer(async_scheduling: bool) -> None:
    trace = make_trace(3, output=1)
    trace.timeout_ns = np.array([-1, 1, -1], dtype=np.int64)  # a step takes more than 1 ns
    recorder = close(trace, [-1, -1, 1], [0] * 3, async_scheduling=async_scheduling).recorder
    assert list(recorder.status) == [FINISHED, ABORTED, NOT_SENT]
    assert recorder.output_tokens[1] == 0


def test_a_batch_that_all_have_given_up_frees_its_memory() -> None:
    """Everyone gives up at the very end of a step, and no other step of the batch will end."""
    trace = make_trace(2, prompt=82, output=6, arrivals=[0, 10**6])
    config = engine_config(num_gpu_blocks=8, max_model_len=112, batching__policy="static")
    cost = LinearCost(1000, 10, 5, 1)
    end_ps = cost.step([(82, 0)], 0, 0, [])[0]
    cost = LinearCost(1000 + -end_ps % PS_PER_NS, 10, 5, 1)
    trace.timeout_ns = np.array([-(-end_ps // PS_PER_NS), -1], dtype=np.int64)
    recorder = run(trace, config, cost, max_tokens=trace.output_tokens, audit=True).recorder
    assert list(recorder.status) == [ABORTED, FINISHED]
    assert recorder.finish_ps[0] == trace.timeout_ns[0] * PS_PER_NS, "at the step's end"


def test_a_patience_beyond_the_clock_is_none() -> None:
    trace = make_trace(3)
    trace.timeout_ns = np.array([2**63 - 1, 2**63 // 1000 + 5, 30], dtype=np.int64)
    assert set(close(trace, [-1, -1, -1], [0, 0, 0]).recorder.status) == {FINISHED}


def test_a_delay_beyond_the_clock_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the simulated time passes 106 days.* a delay"):
        close(make_trace(2), [-1, 0], [0, 2**63 - 1])


def test_users_without_a_session_cost_nothing() -> None:
    trace, config = make_trace(3), SchedulerConfig(num_gpu_blocks=400, max_model_len=1024)
    loop = loop_of([-1, -1, -1], [0, 0, 0])
    recorder = run(
        trace, config, COST, max_tokens=trace.output_tokens, follow_ons=loop, num_users=10**15
    ).recorder
    assert set(recorder.status) == {FINISHED}


def test_an_arrival_after_two_months_is_told() -> None:
    trace = make_trace(2, arrivals=[0, 60 * 86_400 * 10**9])
    recorder = close(trace, [-1, -1], [0, 0]).recorder
    assert recorder.arrival_ps is not None
    assert recorder.arrival_ps[1] < NEVER_PS


def test_who_is_given_up_ends_its_session() -> None:
    trace = make_trace(2, output=50)
    trace.timeout_ns = np.array([5, -1], dtype=np.int64)
    assert list(close(trace, [-1, 0], [0, 0]).recorder.status) == [ABORTED, NOT_SENT]


# ---- who waits for whom ------------------------------------------------------------------------


def test_recorded_times_stay_open() -> None:
    trace = make_trace(3, arrivals=[0, 1, 2])
    trace.session = ["a", "a", "a"]
    assert follow_ons(trace) is None


def test_turns_without_a_time_wait_even_then() -> None:
    trace = make_trace(3)
    trace.after_request, trace.delay_ns = loop_of([-1, 0, 1], [0, 5, 6])[:2]
    trace.has_time = np.array([True, False, True])
    loop = follow_ons(trace)
    assert loop is not None
    assert loop.parent.tolist() == [-1, 0, -1]
    assert loop.delay_ns.tolist()[1] == 5


def test_closed_needs_turns_and_think_times() -> None:
    trace = make_trace(3)
    with pytest.raises(TraceError, match=r"needs turns that follow each other .*--users N"):
        follow_ons(trace, closed=True)
    trace.session = ["a", "b", "a"]
    with pytest.raises(
        TraceError, match=r"1 turn waits for an output \(first: r0002\).* give --think-time"
    ):
        follow_ons(trace, closed=True)
    loop = follow_ons(trace, closed=True, think=ThinkRule.parse("2s"))
    assert loop is not None
    assert loop.parent.tolist() == [-1, -1, 0]
    assert loop.delay_ns.tolist() == [0, 0, 2 * 10**9]


def test_think_times_that_nobody_needs_are_refused() -> None:
    trace, think = make_trace(3), ThinkRule.parse("2s")
    with pytest.raises(TraceError, match="--think-time is for closed loops"):
        follow_ons(trace, think=think)
    trace.after_request, trace.delay_ns = loop_of([-1, 0, 1], [0, 5, 6])[:2]
    with pytest.raises(TraceError, match="this trace records all of them: leave it out"):
        follow_ons(trace, closed=True, think=think)
    loop = follow_ons(trace, users=True, think=think)
    assert loop is not None
    assert loop.delay_ns.tolist() == [2 * 10**9, 5, 6]
    assert loop.note() == ("closed loop: 2 of 3 requests wait for an output, 1 think time is drawn")


def test_users_pause_between_independent_requests() -> None:
    """The classical closed system: so many users, each thinking between its requests."""
    trace = make_trace(4, arrivals=[0, 1, 2, 3])
    loop = follow_ons(trace, users=True, think=ThinkRule.parse("1s"))
    assert loop is not None
    config = SchedulerConfig(num_gpu_blocks=400, max_model_len=1024)
    recorder = run(
        trace, config, COST, max_tokens=trace.output_tokens, follow_ons=loop, num_users=1
    ).recorder
    assert recorder.arrival_ps is not None
    pauses = [recorder.arrival_ps[i] - recorder.finish_ps[i - 1] for i in (1, 2, 3)]
    assert recorder.arrival_ps[0] == 0
    assert pauses == [10**12] * 3


@pytest.mark.parametrize("text", ["", "5", "-1s", "5 h", "exponential(5s)", "lognormal(mean=5s)"])
def test_a_think_time_that_is_none(text: str) -> None:
    with pytest.raises(TraceError, match=r"--think-time is .*; choices: a time such as 5s"):
        ThinkRule.parse(text)


@pytest.mark.parametrize("text", ["exponential(mean=500ms)", "lognormal(mean=500ms,sigma=0.5)"])
def test_think_times_have_their_mean(text: str) -> None:
    drawn = ThinkRule.parse(text).draw(200_000, np.random.default_rng(1))
    assert drawn.mean() == pytest.approx(5e8, rel=0.02)
    assert (drawn >= 0).all()


@pytest.mark.parametrize("reserve", [True, False], ids=["stuck", "looping"])
def test_a_refusal_after_waiting_ends_its_session_and_frees_its_user(reserve: bool) -> None:
    config = engine_config(
        num_gpu_blocks=12,  # holds the first prompt, but not its window beside it
        max_model_len=200,
        batching__scheduler_reserve_full_isl=reserve,
        kv_groups=(KVGroup(), KVGroup(sliding_window=64)),
        retention__prefix_cache_retention_interval=None,
    )
    trace = trace_of([0, 0, 0], [160, 20, 20], [5, 5, 5])
    recorder = run(
        trace,
        config,
        COST,
        max_tokens=trace.output_tokens,
        follow_ons=loop_of([-1, 0, -1], [0, 0, 0]),
        num_users=1,
    ).recorder
    assert list(recorder.status) == [REFUSED, NOT_SENT, FINISHED]
