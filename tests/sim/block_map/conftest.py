"""Three small runs on one trace, recorded: contiguous with holes, shared blocks, a radix tree."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.sim.block_map import BlockMap, BlockRecording, PoolFacts, RecordOptions
from kvsim.sim.comparison.scenarios import with_equal_memory
from kvsim.sim.run.run import simulate
from kvsim.sim.scenario.loader import load_scenario
from kvsim.traces.trace.trace import PrefixIds, Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.scenario.scenario import Scenario

NAMES = ("contiguous", "blocks", "<i>tree</i>")


def trace_of(num_requests: int = 60) -> Trace:
    """Requests of a few shared prompts and answers of many lengths, ten a second."""
    rng = np.random.default_rng(1)
    prompts = rng.integers(40, 600, num_requests)
    num_ids = -(-prompts // 16)
    starts = np.concatenate([[0], np.cumsum(num_ids)])
    shared = rng.integers(0, 3, num_requests)
    ids = [
        1000 * kind + place if place < 12 else 10**6 * (request + 1) + place
        for request, (kind, count) in enumerate(zip(shared, num_ids, strict=True))
        for place in range(count)
    ]
    return Trace(
        "</script><b>trace</b>",
        np.arange(num_requests) * 10**8,
        prompts,
        rng.integers(5, 400, num_requests),
        prefix=PrefixIds(16, starts, np.array(ids), False),
    )


def scenarios() -> dict[str, Scenario]:
    """One scenario a name, with equal memory for about 4,000 tokens."""
    base = load_scenario("vllm-0.32").with_values(
        {"engine.max_model_len": 2048, "engine.kv_memory": "512MiB"}
    )
    orca = load_scenario("orca-oracle").with_values(
        {
            "engine.max_model_len": 2048,
            "engine.kv_memory": "512MiB",
            "allocator.placement": "first-fit",
        }
    )
    tree = base.with_values({"allocator.prefix": "radix"})
    return with_equal_memory(dict(zip(NAMES, (orca, base, tree), strict=True)))


@cache
def recorded(name: str, options: RecordOptions | None = None, num_requests: int = 60) -> BlockMap:
    """Block map of one of the runs."""
    recording = BlockRecording(options)
    run = simulate(trace_of(num_requests), scenarios()[name], listener=recording)
    return recording.block_map(PoolFacts.of(run, name, recording.options.most_cells))


@pytest.fixture
def record() -> Callable[..., BlockMap]:
    """Record ``(name, options)``; names are those of ``NAMES``."""
    return recorded


@pytest.fixture
def maps() -> list[BlockMap]:
    """All three, as they are by default."""
    return [recorded(name) for name in NAMES]
