"""Cells of random tight scenarios, against the engine's own accounts: exactly, slot by slot.

At each snapshot the cells must add up to what the allocator says of that instant; over a run with a
snapshot at every call they must add up to the recorder's integrals.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvsim.policies.allocators import ContiguousAllocator, PagedAllocator
from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig
from kvsim.sim.block_map import BlockMap, BlockRecording, PoolFacts, RecordOptions
from kvsim.sim.block_map.cells import Grid
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.engine.driver import Driver
from kvsim.sim.engine.listener import Listeners, ScheduleListener
from kvsim.sim.engine.requests import Requests
from kvsim.sim.engine.stepper import Stepper
from kvsim.sim.metrics.shares import PRIMITIVES, all_time
from kvsim.sim.pool.shape import PoolShape
from kvsim.sim.recording.recorder import Recorder
from kvsim.traces.adjust.max_tokens import assume_max_tokens
from kvsim.traces.trace.trace import PrefixIds, Trace
from tests.engine_config import engine_config

if TYPE_CHECKING:
    from kvsim.policies.allocators.base import Usage

MODEL_LEN = 40
TIGHT = engine_config(
    max_model_len=MODEL_LEN,
    max_num_seqs=4,
    max_num_batched_tokens=16,
    retention__prefix_cache_retention_interval=None,
)
WHOLE_PROMPTS: dict[str, Any] = {"enable_chunked_prefill": False, "max_num_batched_tokens": 40}
RULES: dict[str, dict[str, Any]] = {
    "contiguous max": {"allocator__reservation": "max"},
    "contiguous oracle": {"allocator__reservation": "oracle", "allocator__placement": "first-fit"},
    "contiguous pow2": {"allocator__reservation": "pow2", "allocator__placement": "buddy"},
    "contiguous predicted": {"allocator__reservation": "predicted", "predictor__kind": "noisy"},
    "contiguous compacted": {
        "allocator__reservation": "oracle",
        "allocator__placement": "first-fit",
        "allocator__compaction": "when-blocked",
    },
    "contiguous static": {
        "allocator__reservation": "oracle",
        "batching__policy": "static",
        **WHOLE_PROMPTS,
    },
    "paged": {"enable_prefix_caching": False},
    "paged static": {"enable_prefix_caching": False, "batching__policy": "static", **WHOLE_PROMPTS},
    "hash": {},
    "hash slru": {"eviction__policy": "slru"},
    "hash swapped": {"preemption__mode": "swap", "num_host_blocks": 8},
    "windows": {"kv_groups": (KVGroup(), KVGroup(sliding_window=6))},
    "windows without cache": {
        "kv_groups": (KVGroup(), KVGroup(sliding_window=6)),
        "enable_prefix_caching": False,
    },
    "sinks": {"retention__kind": "sinks-recent", "retention__budget": 9, "retention__sinks": 2},
    "heavy hitters": {
        "retention__kind": "heavy-hitters",
        "retention__budget": 6,
        "retention__recent": 2,
        "retention__heads": 2,
    },
    "radix": {"allocator__prefix": "radix"},
}


def config_of(name: str, block_size: int, pool_tokens: int, *, is_async: bool) -> SchedulerConfig:
    """Tight rules of one kind; a pool that holds any one request."""
    rules = dict(RULES[name])
    if name.startswith("contiguous"):
        rules |= {"allocator__kind": "contiguous", "enable_prefix_caching": False}
        block_size, pool_tokens = 1, max(pool_tokens, 64)
    num_groups = len(rules.get("kv_groups", (KVGroup(),)))
    waits = rules.get("batching__policy") == "static" or "preemption__mode" in rules
    return engine_config(
        TIGHT,
        block_size=block_size,
        num_gpu_blocks=1 + -(-pool_tokens // block_size) * num_groups,
        async_scheduling=is_async and not waits,
        **rules,
    )


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Up to nine requests in bursts, with prompts of two ids."""
    number = draw(st.integers(1, 9))

    def column(low: int, high: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array(draw(st.lists(st.integers(low, high), min_size=number, max_size=number)))

    prompts, outputs = column(1, 16), column(1, 20)
    num_ids = -(-prompts // 4)
    total = int(num_ids.sum())
    ids = draw(st.lists(st.integers(1, 2), min_size=total, max_size=total))
    prefix = PrefixIds(4, np.concatenate([[0], np.cumsum(num_ids)]), np.array(ids), False)
    return Trace("random", np.cumsum(column(0, 8)), prompts, outputs, prefix=prefix)


class Usages(ScheduleListener):
    """What the allocator says after each call, and what ended members hold; the last of a time.

    ``holders``: of each place that is owned, who owns it.
    """

    def __init__(self) -> None:
        self.at: dict[int, tuple[Usage, int]] = {}
        self.holders: dict[int, dict[int, list[int]]] = {}

    def planned(self, stepper: Stepper, now_ps: int) -> None:
        state = stepper.state
        usage = state.allocator.usage([*state.running, *state.ended])
        self.at[now_ps] = usage, sum(sequence.num_computed_tokens for sequence in state.ended)
        self.holders[now_ps] = found = defaultdict[int, list[int]](list)
        allocator, size = state.allocator, stepper.config.block_size
        for sequence in state.running:
            if isinstance(allocator, ContiguousAllocator):
                first = allocator.address_of(sequence)
                for place in range(first, first + allocator.num_held(sequence)):
                    found[place].append(sequence.index)
            elif isinstance(allocator, PagedAllocator):
                for block in allocator.groups[0].tables[sequence.index]:
                    for place in range(block.id * size, (block.id + 1) * size):
                        found[place].append(sequence.index)


def watched(
    config: SchedulerConfig, trace: Trace, options: RecordOptions
) -> tuple[BlockMap, Usages, Recorder]:
    """Run a trace on a stepper with a recording and the allocator's own words."""
    requests = Requests(trace, config, assume_max_tokens(trace, "model", config.max_model_len))
    recorder, recording, usages = (
        Recorder(len(trace), max_flips=None),
        BlockRecording(options),
        Usages(),
    )
    cost = LinearCost(1500, 100, 70, 3)
    listener = Listeners([recording, usages])
    stepper = Stepper(config, cost, requests, recorder, audit=True, listener=listener)
    Driver(stepper, requests).run()
    grid = Grid.of_pool(config, options.most_cells)
    facts = PoolFacts("", "", "", "", "", grid.num_slots, grid.cell_slots, config.block_size, 1, 0)
    return recording.block_map(facts), usages, recorder


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=max(25, settings().max_examples // 4))
@given(
    trace=traces(),
    block_size=st.sampled_from([1, 2, 4]),
    pool_tokens=st.integers(40, 60),
    is_async=st.booleans(),
    cells=st.sampled_from([5, 1000]),
)
def test_cells_add_up_to_the_engines_accounts(
    name: str, trace: Trace, block_size: int, pool_tokens: int, is_async: bool, cells: int
) -> None:
    config = config_of(name, block_size, pool_tokens, is_async=is_async)
    options = RecordOptions(most_snapshots=10**6, most_cells=cells, first_width_ps=1)
    found, usages, recorder = watched(config, trace, options)
    assert found.time_ps.tolist() == sorted(usages.at)
    assert_instants_agree(found, usages)
    assert_integrals_agree(found, config, recorder)


@pytest.mark.parametrize("name", ["contiguous pow2", "contiguous compacted", "paged", "hash"])
@settings(max_examples=15)
@given(trace=traces())
def test_squares_lie_where_the_allocator_put_things(name: str, trace: Trace) -> None:
    config = config_of(name, 4, 60, is_async=False)
    found, usages, _ = watched(config, trace, RecordOptions(first_width_ps=1, most_snapshots=10**6))
    for number, time_ps in enumerate(found.time_ps.tolist()):
        holders: list[list[int]] = [[] for _ in range(found.grid.num_cells)]
        for place, owners in usages.holders[time_ps].items():
            holders[place // found.facts.cell_slots] += owners
        for cell, owners in enumerate(holders):
            owner, most = found.owner[number, cell], found.owners[number, cell]
            assert (owner in owners) == bool(owners) == (owner >= 0)
            if config.block_size > 1:
                assert most == len(set(owners))


def assert_instants_agree(found: BlockMap, usages: Usages) -> None:
    """Sums of each snapshot's cells are the allocator's own counts, and no cell overflows."""
    assert (found.slots >= 0).all()
    assert (found.slots.sum(axis=1) == found.grid.sizes()).all()
    for number, time_ps in enumerate(found.time_ps.tolist()):
        usage, of_ended = usages.at[time_ps]
        held = dict(zip(PRIMITIVES, found.slots[number].sum(axis=1).tolist(), strict=True))
        assert held["free"] + held["blocked"] + held["hole"] == usage.blank
        assert held["cached"] == usage.cached
        assert held["future"] + held["never"] == usage.empty
        assert held["duplicate"] == usage.duplicate
        assert held["padding"] == usage.padding + of_ended


def assert_integrals_agree(found: BlockMap, config: SchedulerConfig, recorder: Recorder) -> None:
    """Cells over time are what the recorder integrated; before the first call all is free."""
    shape = PoolShape(
        config.num_gpu_blocks, config.block_size, 1, num_null_blocks=config.num_null_blocks
    )
    sums = found.slots.sum(axis=2)[:-1].T.astype(object) @ np.diff(found.time_ps).astype(object)
    ours = dict(zip(PRIMITIVES, sums.tolist(), strict=True))
    first_ps = int(found.time_ps[0])
    ours["free"] += config.usable_blocks * config.block_size * first_ps
    ours["unusable"] += config.num_null_blocks * config.block_size * first_ps
    assert ours == all_time(recorder, shape)
