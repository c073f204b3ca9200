"""Small random runs that try to break an engine or a policy.

They have pools of a few blocks, prompts that continue others, many arrivals at once, outputs that
end by an unforeseen token, and costs with kinks.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvsim.policies.eviction import AT_ADMISSIONS, EVICTION_KEYS
from kvsim.policies.options import Allocator, Eviction
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.cost.profile import MeasuredRanges
from kvsim.sim.cost.profile_cost import GroupAttention, ProfileCost, TokenCost
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.traces.trace.trace import PrefixIds, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from kvsim.sim.cost.step_cost import StepCost


class RandomScenario(NamedTuple):
    """Inputs of one run."""

    trace: Trace
    config: SchedulerConfig
    cost: StepCost
    max_tokens: NDArray[np.int64]


def make_config(rnd: Random) -> SchedulerConfig:
    """Return a small engine, mostly too small for its requests."""
    block_size = rnd.choice([1, 2, 4, 16])
    max_model_len = rnd.choice([32, 64, 128, 200])
    most_blocks = max(3, rnd.choice([1, 2, 4, 10]) * max_model_len // block_size)
    max_num_seqs = rnd.choice([1, 2, 3, 8, 32])
    sizes = SchedulerConfig(
        block_size=block_size,
        num_gpu_blocks=rnd.randint(2, most_blocks) + 1,
        max_num_batched_tokens=max(max_num_seqs, rnd.choice([1, 3, 8, 16, 64, 300])),
        max_num_seqs=max_num_seqs,
        max_model_len=max_model_len,
        enable_prefix_caching=rnd.random() < 0.8,
    )
    return sizes.with_values(
        {
            "batching.watermark": rnd.choice([0.0, 0.0, 0.05, 0.3]),
            "batching.scheduler_reserve_full_isl": rnd.random() < 0.7,
            "async_scheduling": rnd.random() < 0.5,
            "batching.policy": rnd.choice(["mixed-running-first"] * 3 + ["iteration-level"]),
            "eviction": make_eviction(rnd),
        }
    )


def make_radix_config(rnd: Random) -> SchedulerConfig:
    """Return a small engine with a radix tree."""
    return replace(
        make_config(rnd),
        enable_prefix_caching=True,
        allocator=Allocator(prefix="radix"),
        eviction=Eviction(policy=rnd.choice(sorted(EVICTION_KEYS))),
    )


def make_eviction(rnd: Random) -> Eviction:
    """Return, half of the time, another order that the leaper supports, or a limit of the cache."""
    if rnd.random() < 0.5:
        return Eviction()
    return Eviction(
        policy=rnd.choice(sorted(AT_ADMISSIONS)), capacity=rnd.choice([None, None, 0, 2, 7])
    )


def make_reserved_config(rnd: Random) -> SchedulerConfig:
    """Return an engine with contiguous reservations; two of the longest rarely fit its pool."""
    config = make_config(rnd)
    return replace(
        config,
        allocator=Allocator(
            kind="contiguous",
            reservation=rnd.choice(["max", "pow2", "oracle"]),
            placement=rnd.choice(["buddy", "first-fit", "best-fit"]),
        ),
        batching=replace(config.batching, watermark=0.0),
        block_size=1,
        num_gpu_blocks=rnd.randint(2, rnd.choice([1, 2, 4, 10]) * config.max_model_len + 2),
        enable_prefix_caching=False,
    )


def make_ids(rnd: Random, lengths: list[int]) -> list[list[int]]:
    """Return ids of requests with the given blocks: shared prefixes, continued requests, fresh."""
    of_common = Random(rnd.getrandbits(32))  # one draw, not 600: a test records and shrinks each
    common = [[100 + of_common.randrange(3) for _ in range(200)] for _ in range(3)]
    fresh = iter(range(1000, 10**9))
    made: list[list[int]] = []
    for length in lengths:
        base: list[int] = []
        kind = rnd.random()
        if kind < 0.4:
            base = common[rnd.randrange(3)][: rnd.randint(0, length)]
        elif kind < 0.8 and made:
            base = rnd.choice(made)
            base = base[: min(length, len(base) if rnd.random() < 0.5 else rnd.randint(0, length))]
        made.append(base + [next(fresh) for _ in range(length - len(base))])
    return made


def make_trace(rnd: Random, config: SchedulerConfig) -> Trace:
    """Return up to 40 requests of four users, many at once, some too long for the engine."""
    arrivals, prompts, outputs = [], [], []
    now_ns, gap_ns = 0, rnd.choice([0, 1, 5, 20, 100, 1000])
    for _ in range(rnd.randint(1, 40)):
        now_ns += rnd.randint(0, gap_ns) if rnd.random() < 0.7 else 0
        longest = min(rnd.choice([3, 10, 40, config.max_model_len + 3]), config.max_model_len + 2)
        prompt = rnd.randint(1, longest)
        if rnd.random() < 0.3:  # ends with a block
            prompt = max(1, prompt // config.block_size * config.block_size)
        arrivals.append(now_ns)
        prompts.append(prompt)
        outputs.append(rnd.randint(1, rnd.choice([1, 3, 20, 60])))
    prefix = None
    if rnd.random() < 0.85:
        id_tokens = rnd.choice([config.block_size, config.block_size * 2, 1])
        covers_output = rnd.random() < 0.7
        totals = [p + o if covers_output else p for p, o in zip(prompts, outputs, strict=True)]
        ids = make_ids(rnd, [-(-total // id_tokens) for total in totals])
        offsets = np.cumsum([0, *map(len, ids)])
        flat = np.array([value for one in ids for value in one], dtype=np.int64)
        prefix = PrefixIds(id_tokens, offsets, flat, covers_output=covers_output)
    columns = [np.array(values, dtype=np.int64) for values in (arrivals, prompts, outputs)]
    users = [f"u{index % 4}" for index in range(len(arrivals))]
    return Trace("random", columns[0], columns[1], columns[2], user=users, prefix=prefix)


def make_cost(rnd: Random, *, overlap: bool) -> StepCost:
    """Return a linear cost, or the calibrated form with its kinks and edges."""
    if rnd.random() < 0.6:
        return LinearCost(
            rnd.choice([0, 1000, 5000]),
            rnd.choice([0, 300]),
            rnd.choice([0, 70]),
            rnd.choice([0, 1, 13]),
        )
    attention = GroupAttention(*(rnd.randint(0, 40) for _ in range(12)))
    pieces = tuple((rnd.randint(0, 3000), rnd.randint(0, 90)) for _ in range(2))
    return ProfileCost(
        name="random",
        overlap=overlap,
        host_ps=rnd.randint(0, 9000),
        host_per_request_ps=rnd.randint(0, 50),
        gemm=TokenCost(pieces, (), rnd.choice([1, 4, 16]), rnd.choice([0, 700])),
        all_reduce=TokenCost(((0, 0),)),
        attention=(attention,),
        head=TokenCost(((rnd.randint(0, 500), rnd.randint(0, 50)),)),
        measured=MeasuredRanges(
            batch=(1, rnd.randint(1, 20)),
            total_context=(1, rnd.randint(1, 900)),
            step_tokens=(1, rnd.randint(1, 40)),
            prefill_tokens=(1, 100),
            prefill_past=(0, 60),
            mixed_decodes=(1, 4),
        ),
        copy_per_token_ps=0,
    )


def random_scenario(
    rnd: Random, config_of: Callable[[Random], SchedulerConfig] = make_config
) -> RandomScenario:
    """Return all inputs of one run; half of the outputs end by an unforeseen token."""
    config = config_of(rnd)
    trace = make_trace(rnd, config)
    max_tokens = [
        rnd.choice([output, output, output + 1, output + 7, config.max_model_len])
        for output in trace.output_tokens.tolist()
    ]
    cost = make_cost(rnd, overlap=config.async_scheduling)
    return RandomScenario(trace, config, cost, np.array(max_tokens, dtype=np.int64))


def reserved_scenario(rnd: Random) -> RandomScenario:
    """Return all inputs of one run with reservations."""
    return random_scenario(rnd, make_reserved_config)


def radix_scenario(rnd: Random) -> RandomScenario:
    """Return all inputs of one run with a radix tree."""
    scenario = random_scenario(rnd, make_radix_config)
    priority = np.array([rnd.randrange(3) for _ in range(len(scenario.trace))])
    return scenario._replace(trace=replace(scenario.trace, priority=priority))
