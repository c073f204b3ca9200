"""Every recorded run of SGLang's radix cache is replayed identically."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvsim.sim.conformance.cache_replay import CacheReplay, replay_cache

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.conformance.cache_log import CacheLog
    from kvsim.traces import Trace

    RecordedCache = Callable[[str], tuple[CacheLog, Trace]]

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "sglang"
INDEX = json.loads((GOLDEN / "index.json").read_text("utf-8"))


def test_every_log_is_in_the_index() -> None:
    assert {path.name.removesuffix(".jsonl.gz") for path in GOLDEN.glob("*.gz")} == set(INDEX)
    assert len(INDEX) == 16
    assert {entry["policy"] for entry in INDEX.values()} == {"lru", "fifo", "lfu", "slru"}


@pytest.mark.parametrize("name", sorted(INDEX))
def test_recorded_cache(name: str, recorded_cache: RecordedCache) -> None:
    log, trace = recorded_cache(name)
    verdict = replay_cache(log, trace)
    assert verdict.difference is None
    assert verdict.num_operations == INDEX[name]["ops"]


@pytest.mark.parametrize("name", ["mixed_p1", "tree_p16", "multiturn_tight_p16_slru"])
def test_the_cache_is_sound_after_each_operation(name: str, recorded_cache: RecordedCache) -> None:
    log, trace = recorded_cache(name)
    replay = CacheReplay(trace, log.options)
    for record in log.operations:
        replay.do(record["op"], record["id"])
        replay.allocator.check_invariants()
    assert replay.totals == {key: log.summary[key] for key in replay.totals}
