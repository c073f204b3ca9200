"""A radix tree under the scheduler: what is found when, and what scenarios it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.policies.allocators import RadixAllocator
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.engine.listener import ScheduleListener
from kvsim.sim.run.run import simulate
from kvsim.sim.scenario.preset import load_preset, verification
from kvsim.sim.scenario.scenario import DEFAULT_PRESET, Scenario
from kvsim.sim.scenario.setup import set_up
from kvsim.traces.trace.trace import PrefixIds, Trace
from tests.engine_config import engine_config
from tests.engine_run import run

if TYPE_CHECKING:
    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.engine.steps_in_flight import StepInFlight

US = 10**6  # one microsecond in ps: the length of every step
RADIX: dict[str, object] = {"allocator.prefix": "radix"}
SMALL: dict[str, object] = {"engine.kv_memory": "1GiB", "engine.max_model_len": 4096}


def make_trace(*rows: tuple[int, int, int, str]) -> Trace:
    """Rows of (arrival in us, prompt, output, a letter for each two tokens of both)."""
    arrival, prompt, output = np.array([row[:3] for row in rows], dtype=np.int64).T
    offsets = np.cumsum([0, *(len(row[3]) for row in rows)])
    ids = np.array([ord(letter) for row in rows for letter in row[3]])
    prefix = PrefixIds(2, offsets, ids, covers_output=True)
    return Trace("hand-made", arrival * 1000, prompt, output, max_tokens=output, prefix=prefix)


class Hits(ScheduleListener):
    """Hit of each admission, and preemptions, in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.sizes: list[int] = []

    def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
        for preemption in step_in_flight.step.preempted:
            self.seen.append((f"-{preemption.sequence.name[-1]}", preemption.num_computed_tokens))
        for admission in step_in_flight.step.admitted:
            self.seen.append((admission.sequence.name[-1], admission.hit_tokens))
        allocator = stepper.state.allocator
        assert isinstance(allocator, RadixAllocator)
        self.sizes.append(allocator.cache.tree.num_tokens)


def hits(trace: Trace, **rules: object) -> Hits:
    """Chunks of 4 tokens, one microsecond a step, pages of 1 token unless said otherwise."""
    defaults: dict[str, object] = {
        "allocator__prefix": "radix",
        "block_size": 1,
        "num_gpu_blocks": 100,
        "max_num_batched_tokens": 4,
        "max_num_seqs": 4,
        "max_model_len": 40,
    }
    config = engine_config(**(defaults | rules))
    listener = Hits()
    cost = LinearCost(base_ps=US)
    assert trace.max_tokens is not None
    done = run(trace, config, cost, max_tokens=trace.max_tokens, audit=True, listener=listener)
    assert done.audited
    return listener


@pytest.mark.parametrize("async_scheduling", [False, True])
def test_a_chunk_is_found_once_it_has_run(async_scheduling: bool) -> None:
    """Request 1 comes when 6 tokens of request 0 have run and the other 2 have been scheduled."""
    trace = make_trace((0, 8, 1, "abcde"), (1, 8, 1, "abcdf"))
    found = hits(trace, max_num_batched_tokens=6, async_scheduling=async_scheduling)
    assert found.seen == [("0", 0), ("1", 6)]


@pytest.mark.parametrize(("page_size", "hit"), [(1, 7), (2, 6)])
def test_an_answer_is_found_when_its_request_has_ended(page_size: int, hit: int) -> None:
    first, again = (0, 4, 4, "abcd"), (8, 8, 1, "abcde")
    assert hits(make_trace(first, again), block_size=page_size).seen[1] == ("1", hit)
    running = hits(make_trace(first, (2, 8, 1, "abcde")), block_size=page_size)
    assert running.seen[1] == ("1", 4)


def test_the_last_token_has_no_kv() -> None:
    found = hits(make_trace((0, 4, 3, "abcd"), (9, 12, 1, "abcdefg")))
    assert found.seen == [("0", 0), ("1", 6)]


def test_duplicates_come_back_when_the_second_copy_has_run() -> None:
    trace = make_trace((0, 4, 6, "abxxx"), (0, 4, 6, "abyyy"))
    found = hits(trace, max_num_batched_tokens=8)
    assert found.seen == [("0", 0), ("1", 0)]
    assert found.sizes[1] == 4
    assert hits(trace, max_num_batched_tokens=8, num_gpu_blocks=14).seen == found.seen


def test_what_a_preempted_request_has_generated_is_lost() -> None:
    trace = make_trace((0, 4, 8, "abcdef"), (0, 4, 8, "vwxyzz"))
    found = hits(trace, max_num_batched_tokens=8, num_gpu_blocks=16)
    assert found.seen == [("0", 0), ("1", 0), ("-1", 8), ("1", 4)]


def test_a_scenario_in_pages_of_one_token_unless_given() -> None:
    setup = set_up(Scenario.load().with_values(RADIX | SMALL))
    config = setup.config
    assert (config.allocator.prefix, config.block_size, config.eviction.policy) == (
        "radix",
        1,
        "lru",
    )
    assert config.usable_blocks == config.num_gpu_blocks == setup.pool.num_blocks
    assert setup.pool.num_null_blocks == 0
    values = RADIX | SMALL | {"engine.block_size": 32, "eviction.policy": "slru"}
    config = set_up(Scenario.load().with_values(values)).config
    assert (config.block_size, config.eviction.policy) == (32, "slru")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"engine.enable_prefix_caching": False},
            "allocator.prefix = 'radix' contradicts engine.enable_prefix_caching = false",
        ),
        (
            {"allocator.kind": "contiguous"},
            "'contiguous' shares no prefixes: allocator.prefix cannot be 'radix'",
        ),
        (
            {"allocator.kind": "examples:Mine"},
            "'radix' belongs to allocator.kind = 'paged', not 'examples:Mine'",
        ),
        ({"engine.kv_groups": ["full", 64]}, "'radix' keeps full attention in all layers"),
        ({"engine.kv_groups": [64]}, "'radix' keeps full attention in all layers"),
        (
            {"eviction.policy": "s3-fifo"},
            "eviction.policy = 's3-fifo' remembers blocks by name, which the nodes of allocator",
        ),
        (
            {"eviction.capacity": 100},
            r"eviction.capacity .=100. counts blocks found by hash: allocator.prefix = 'radix'",
        ),
    ],
)
def test_combinations_that_make_no_sense(values: dict[str, object], message: str) -> None:
    kind = values.pop("allocator.kind", "paged")
    scenario = Scenario.load().with_values(RADIX | SMALL | values)
    allocator = replace(scenario.allocator, kind=str(kind))  # no such module to load
    with pytest.raises(ValueError, match=message):
        set_up(replace(scenario, allocator=allocator))


def test_a_run_says_that_the_cache_is_verified_and_the_scheduler_is_not() -> None:
    trace = make_trace((0, 8, 3, "abcdef"))
    done = simulate(trace, Scenario.load().with_values(RADIX | SMALL))
    assert done.engine.engine == "leaper"
    told = done.summary.scenario
    assert told.verified == (
        "cache verified against recorded logs of SGLang 0.5.23, scheduler not: it is that of "
        f"{load_preset(DEFAULT_PRESET).engine}"
    )
    read = Scenario.load().with_values(RADIX | {"eviction.policy": "mru"})
    assert "cache read from the sources of SGLang" in str(verification(read))
    other = Scenario.load().with_values(RADIX | {"eviction.policy": "gdsf"})
    assert "an order that it does not have (gdsf), not verified" in str(verification(other))
