"""Why a run is leapt or stepped through."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.run.replay import run
from kvsim.traces.trace.trace import Trace

ONE = Trace("one", np.zeros(1, np.int64), np.array([10]), np.array([5]))


@pytest.mark.parametrize(
    ("rules", "trace", "engine", "reason"),
    [
        ({}, ONE, "leaper", "FCFS, one full-attention group"),
        ({"batching": "no-evict"}, ONE, "leaper", "FCFS, one full-attention group"),
        *(
            ({"batching": name}, ONE, "stepper", f"batching {name} is stepped through")
            for name in ("prefill-first", "static", "token-budget")
        ),
        ({"policy": "priority"}, ONE, "stepper", 'policy "priority" breaks'),
        ({"predictor": "oracle"}, ONE, "stepper", 'predictor "oracle" is asked at each'),
        ({}, replace(ONE, timeout_ns=np.array([9])), "stepper", "requests with a timeout"),
        ({"prefix": "radix"}, ONE, "leaper", "FCFS, one full-attention group"),
        ({"prefix": "radix", "policy": "priority"}, ONE, "stepper", 'policy "priority" breaks'),
        (
            {"allocator": "contiguous", "block_size": 1, "batching": "iteration-level"},
            ONE,
            "leaper",
            "FCFS, one full-attention group",
        ),
        (
            {
                "allocator": "contiguous",
                "block_size": 1,
                "placement": "first-fit",
                "compaction": "when-blocked",
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
    config = SchedulerConfig(num_gpu_blocks=5000, **rules)  # type: ignore[arg-type]
    done = run(trace, config, LinearCost(base_ps=1), max_tokens=np.array([5]))
    assert done.engine == engine
    assert reason in done.reason
