"""Eviction orders and capacities in whole runs of the stepper."""

from __future__ import annotations

import importlib.util
import math
import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.policies.eviction import EVICTION
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.engine.next_use import NextUse
from kvsim.sim.engine.requests import Requests
from kvsim.sim.run.run import simulate
from kvsim.sim.scenario.loader import scenario_to_toml
from kvsim.sim.scenario.scenario import Scenario
from kvsim.traces.reuse import measure_reuse, replay
from kvsim.traces.trace.trace import PrefixIds, Trace
from tests.engine_config import engine_config
from tests.engine_run import run

if TYPE_CHECKING:
    from types import ModuleType


def _twin() -> ModuleType:
    spec = importlib.util.spec_from_file_location("twin", Path(__file__).with_name("test_twin.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


twin: Any = _twin()
SECOND_NS = 10**9


def left_behind(seed: int, **options: Any) -> dict[str, Any]:
    """What a small, tight, random scenario leaves with some options changed, audited."""
    trace, config, cost, max_tokens = twin.random_scenario(Random(seed))
    plain = {"enable_prefix_caching": True, "eviction__policy": "lru", "eviction__capacity": None}
    config = engine_config(config, **(plain | options))
    done = run(trace, config, cost, max_tokens=max_tokens, audit=True, step=True)
    values: dict[str, Any] = twin.left_behind(done.recorder)
    return values


left_by_lru = cache(left_behind)


@pytest.mark.parametrize("seed", range(0, 60, 6))
def test_lru_as_an_order_is_the_free_queue(seed: int) -> None:
    for one in range(seed, seed + 6):
        front = {"allocator__freed_blocks_without_key": "front"}
        assert left_behind(one, **front) == left_behind(one, **front, eviction__capacity=10**6)


@pytest.mark.parametrize("name", EVICTION.builtins)
def test_runs_are_sound_under_every_order_and_the_same_again(name: str) -> None:
    evicted = 0
    for seed in range(12):
        first = left_behind(seed, eviction__policy=name)
        assert first == left_behind(seed, eviction__policy=name)
        assert first["status"] == left_by_lru(seed)["status"]
        evicted += first["num_evicted_blocks"]
    assert evicted > 200


def make_trace(chains: list[list[int]], outputs: int = 1, gap_ns: int = SECOND_NS) -> Trace:
    """Requests far apart whose prompts are these blocks of 4 tokens, and 2 tokens more."""
    arrivals = np.arange(len(chains), dtype=np.int64) * gap_ns
    prompts = np.array([4 * len(chain) + 2 for chain in chains], dtype=np.int64)
    ids = np.array([value for chain in chains for value in chain], dtype=np.int64)
    offsets = np.cumsum([0, *map(len, chains)])
    prefix = PrefixIds(4, offsets, ids, covers_output=False)
    return Trace("chains", arrivals, prompts, np.full(len(chains), outputs), prefix=prefix)


CONFIG = SchedulerConfig(block_size=4, num_gpu_blocks=8, max_model_len=32)
COST = LinearCost(1_000_000, per_prefill_token_ps=1000)


def hits(chains: list[list[int]], **options: Any) -> list[int]:
    trace = make_trace(chains)
    config = engine_config(CONFIG, **options)
    done = run(trace, config, COST, max_tokens=trace.output_tokens, audit=True, seed=3)
    return [tokens // 4 for tokens in done.recorder.hit_tokens]


def random_chains(rnd: Random, num: int) -> list[list[int]]:
    return [[rnd.randrange(3) for _ in range(rnd.randint(1, 5))] for _ in range(num)]


def test_an_infinite_cache_hits_all_that_was_there_before() -> None:
    chains = random_chains(Random(1), 60)
    seen: set[tuple[int, ...]] = set()
    expected = []
    for chain in chains:
        prefixes = [tuple(chain[:length]) for length in range(1, len(chain) + 1)]
        expected.append(sum(prefix in seen for prefix in prefixes))
        seen.update(prefixes)
    assert hits(chains, eviction__capacity=math.inf) == expected
    assert hits(chains, eviction__capacity=math.inf, eviction__policy="fifo") == expected
    assert sum(hits(chains)) < sum(expected)


def test_what_comes_back_takes_room_again() -> None:
    """5 + 3 blocks do not fit 7: the second waits for the first, with its whole prompt cached."""
    chains = [[1, 1, 1, 1], [2, 2], [1, 1, 1, 1], [2, 2]]
    trace = make_trace(chains, outputs=3)
    trace = replace(trace, arrival_ns=np.array([0, 1, 2 * SECOND_NS, 2 * SECOND_NS]))
    config = engine_config(CONFIG, eviction__capacity=math.inf)
    recorder = run(trace, config, COST, max_tokens=trace.output_tokens, audit=True).recorder
    assert [tokens // 4 for tokens in recorder.hit_tokens] == [0, 0, 4, 2]
    assert recorder.first_scheduled_ps[3] == recorder.finish_ps[2]


def test_a_capacity_of_none_at_all_caches_what_is_in_use() -> None:
    chains = [[1, 2], [1, 2], [1, 2]]
    assert hits(chains, eviction__capacity=0) == [0, 0, 0]
    assert hits(chains, eviction__capacity=1) == [0, 1, 1]
    assert hits(chains) == [0, 2, 2]


def test_furthest_next_use_keeps_what_lru_loses() -> None:
    chains = [[1, 1, 1], [2, 2, 2], [3, 3, 3]] * 6  # a loop just larger than the pool
    assert sum(hits(chains)) == 0
    assert sum(hits(chains, eviction__policy="furthest-next-use")) > 15


@pytest.mark.parametrize("policy", ["lru", "lfu"])
@pytest.mark.parametrize("seed", range(4))
def test_far_apart_requests_hit_what_the_untimed_tree_says(policy: str, seed: int) -> None:
    """One block always holds the 2 tokens that are no whole block: the cache has one less."""
    chains = random_chains(Random(seed), 80)
    reuse = measure_reuse(make_trace(chains))
    hit = replay(reuse.accesses, "tree", policy, CONFIG.usable_blocks - 1)
    bounds = pairwise(reuse.accesses.offsets.tolist())
    assert hits(chains, eviction__policy=policy) == [
        int(hit[start:end].sum()) for start, end in bounds
    ]


def test_next_use_against_all_requests_looked_at() -> None:
    chains = random_chains(Random(4), 40)
    chains[7] = [1, 2, 0, 1, 2, 0, 1, 2]  # longer than the model allows: it never runs
    trace = make_trace(chains)
    requests = Requests(trace, CONFIG, trace.output_tokens)
    assert requests.refused[7]
    future, asked = NextUse(requests), 0
    for index, chain in enumerate(chains):
        sequence = requests.sequence(index)
        for length in range(1, len(chain) + 1):
            for after in range(0, 40, 3):
                expected = next(
                    (
                        other
                        for other in range(after + 1, 40)
                        if other != 7 and chains[other][:length] == chain[:length]
                    ),
                    None,
                )
                assert (
                    future.next_use((0, sequence.block_key(length - 1, CONFIG.block_size)), after)
                    == expected
                )
                asked += expected is not None
    assert asked > 300
    assert future.next_use((0, (5, 1)), 0) is None  # private to request 5


def test_what_may_not_be_leapt_says_why() -> None:
    def engine(**options: Any) -> tuple[str, str]:
        trace = make_trace([[1], [1]])
        config = engine_config(CONFIG, **options)
        done = run(trace, config, COST, max_tokens=trace.output_tokens)
        return done.engine, done.reason

    assert engine()[0] == "leaper"
    assert engine(eviction__policy="lfu")[0] == engine(eviction__capacity=5)[0] == "leaper"
    reason = "eviction order fifo may look at when a block came in"
    assert engine(eviction__policy="fifo") == ("stepper", reason)
    assert engine(eviction__capacity=math.inf)[1] == "eviction.capacity = inf is stepped through"
    assert engine(eviction__policy="fifo", enable_prefix_caching=False)[0] == "leaper"


@pytest.mark.parametrize("value", ["inf", math.inf, 0, 500])
def test_capacities_are_read_and_written(value: object, tmp_path: Path) -> None:
    scenario = Scenario().with_values({"eviction.capacity": value})
    assert scenario.eviction.capacity == float(value)  # type: ignore[arg-type]
    path = tmp_path / "scenario.toml"
    path.write_text(scenario_to_toml(scenario))
    assert Scenario.load(str(path)).eviction == scenario.eviction


@pytest.mark.parametrize("value", [-1, 1.5, "all", True])
def test_other_capacities_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"eviction.capacity = .*a whole number >= 0, or inf"):
        Scenario().with_values({"eviction.capacity": value})


def test_orders_of_ones_own_and_unknown_ones(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "mine.py").write_text("def newest(entry):\n    return (-entry.created,)\n")
    monkeypatch.chdir(tmp_path)
    chains = random_chains(Random(2), 30)
    assert hits(chains, eviction__policy="mine:newest") == hits(chains, eviction__policy="filo")
    with pytest.raises(
        ValueError,
        match=r"eviction.policy = 'lur' .did you mean 'lru'",
    ):
        Scenario().with_values({"eviction.policy": "lur"})


def test_what_reads_the_future_or_is_unused_is_told() -> None:
    trace = make_trace([[1], [1]])
    values: dict[str, object] = {"eviction.policy": "furthest-next-use"}
    notes = str(simulate(trace, Scenario().with_values(values)).summary.notes)
    assert "reads the future" in notes
    assert "not a bound" in notes
    values["engine.enable_prefix_caching"] = False
    notes = str(simulate(trace, Scenario().with_values(values)).summary.notes)
    assert "nothing is cached: eviction.policy is unused" in notes
    assert "reads the future" not in notes
