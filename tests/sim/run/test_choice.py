"""Why a run is leapt or stepped through."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvsim.sim.cost.step_cost import LinearCost
from kvsim.traces.trace.trace import Trace
from tests.engine_config import engine_config
from tests.engine_run import run

ONE = Trace("one", np.zeros(1, np.int64), np.array([10]), np.array([5]))


@pytest.mark.parametrize(
    ("rules", "trace", "engine", "reason"),
    [
        ({}, ONE, "leaper", "FCFS, one full-attention group"),
        ({"batching__policy": "no-evict"}, ONE, "leaper", "FCFS, one full-attention group"),
        *(
            ({"batching__policy": name}, ONE, "stepper", f"batching {name} is stepped through")
            for name in ("prefill-first", "static", "token-budget")
        ),
        ({"queue__policy": "priority"}, ONE, "stepper", 'policy "priority" breaks'),
        ({"predictor__kind": "oracle"}, ONE, "stepper", 'predictor "oracle" is asked at each'),
        ({}, replace(ONE, timeout_ns=np.array([9])), "stepper", "requests with a timeout"),
        ({"allocator__prefix": "radix"}, ONE, "leaper", "FCFS, one full-attention group"),
        (
            {"allocator__prefix": "radix", "queue__policy": "priority"},
            ONE,
            "stepper",
            'policy "priority" breaks',
        ),
        (
            {
                "allocator__kind": "contiguous",
                "block_size": 1,
                "batching__policy": "iteration-level",
            },
            ONE,
            "leaper",
            "FCFS, one full-attention group",
        ),
        (
            {
                "allocator__kind": "contiguous",
                "block_size": 1,
                "allocator__placement": "first-fit",
                "allocator__compaction": "when-blocked",
            },
            ONE,
            "stepper",
            "compaction when-blocked is stepped through",
        ),
    ],
)
def test_the_engine_and_its_reason(
    rules: dict[str, object], trace: Trace, engine: str, reason: str
) -> None:
    config = engine_config(num_gpu_blocks=5000, **rules)
    done = run(trace, config, LinearCost(base_ps=1), max_tokens=np.array([5]))
    assert done.engine == engine
    assert reason in done.reason
