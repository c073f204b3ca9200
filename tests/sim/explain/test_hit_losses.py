"""Each prompt token is a hit or lost for one reason."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from kvsim.sim.conformance.random_scenario import random_scenario
from kvsim.sim.explain.hit_losses import PARTS, hit_parts, tokens_seen_before
from kvsim.traces.trace.trace import PrefixIds, Trace
from tests.engine_run import run


def make_trace(prompts: list[int], ids: list[list[int]], id_tokens: int) -> Trace:
    flat = np.array([one for row in ids for one in row], dtype=np.int64)
    offsets = np.cumsum([0, *map(len, ids)])
    columns = (np.arange(len(prompts)), np.array(prompts), np.ones(len(prompts), np.int64))
    times, lengths, outputs = (column.astype(np.int64) for column in columns)
    return Trace("by hand", times, lengths, outputs, prefix=PrefixIds(id_tokens, offsets, flat))


def losses(
    trace: Trace, hits: list[int], block_size: int, *, caching: bool = True, **runs: list[int]
) -> dict[str, int]:
    arrays = {name: np.array(values, np.int64) for name, values in runs.items()}
    parts = hit_parts(
        trace,
        range(len(trace)),
        np.array(hits, np.int64),
        block_size=block_size,
        caching=caching,
        best=arrays.get("best"),
        infinite=arrays.get("infinite"),
    )
    assert list(parts) == list(PARTS)
    assert sum(parts.values()) == trace.prompt_tokens.sum()
    return {name: tokens for name, tokens in parts.items() if tokens}


def seen_by_brute_force(trace: Trace, order: list[int]) -> list[int]:
    """Compare every request with every earlier one, id by id."""
    prefix = trace.prefix
    seen = [0] * len(trace)
    if prefix is None:
        return seen
    rows = [prefix.ids[a:b].tolist() for a, b in zip(prefix.offsets, prefix.offsets[1:])]  # noqa: B905
    for place, index in enumerate(order):
        longest = 0
        for other in order[:place]:
            common = 0
            while common < min(len(rows[index]), len(rows[other])):
                if rows[index][common] != rows[other][common]:
                    break
                common += 1
            longest = max(longest, common)
        seen[index] = min(longest * prefix.block_size, int(trace.prompt_tokens[index]))
    return seen


def test_parts_by_hand() -> None:
    """Ids of 8 tokens, blocks of 8: the second prompt was had wholly, the third parts after one."""
    trace = make_trace([24, 24, 24], [[1, 2, 3], [1, 2, 3], [1, 4, 5]], 8)
    assert losses(trace, [0, 16, 8], 8, best=[0, 16, 8], infinite=[0, 16, 8]) == {
        "hit": 24,
        "block rounding": 7,
        "last token": 1,
        "compulsory": 24 + 16,
    }
    assert losses(trace, [0, 0, 0], 8, best=[0, 8, 0], infinite=[0, 16, 0]) == {
        "eviction policy": 8,
        "capacity": 8,
        "not computed yet": 8,
        "block rounding": 7,
        "last token": 1,
        "compulsory": 40,
    }
    assert losses(trace, [0, 0, 0], 8, caching=False)["cache off"] == 24
    assert losses(trace, [0, 8, 0], 8)["evicted or not computed yet"] == 16


def test_what_coarse_ids_cannot_tell() -> None:
    """Ids of 8 in blocks of 2: up to a whole id may be shared; behind the last id nobody knows."""
    trace = make_trace([19, 20], [[1, 2], [1, 3]], 8)
    found = losses(trace, [0, 8], 2, best=[0, 8], infinite=[0, 8])
    assert found == {"hit": 8, "id granularity": 8 + 8, "compulsory": 11 + 4}
    same = make_trace([19, 20], [[1, 2], [1, 2]], 8)
    assert losses(same, [0, 16], 2, best=[0, 16], infinite=[0, 16]) == {
        "hit": 16,
        "id granularity": 8 + 4,
        "compulsory": 11,
    }


@pytest.mark.parametrize("seed", range(60))
def test_seen_tokens_are_those_of_brute_force_and_bound_the_hits(seed: int) -> None:
    trace, config, cost, max_tokens = random_scenario(Random(seed))
    recorder = run(trace, config, cost, max_tokens=max_tokens).recorder
    first = np.array(recorder.first_scheduled_ps)
    order = [i for i in np.argsort(first, kind="stable").tolist() if first[i] >= 0]
    assert tokens_seen_before(trace, order).tolist() == seen_by_brute_force(trace, order)
    hits = np.array(recorder.hit_tokens, np.int64)
    parts = hit_parts(
        trace, order, hits, block_size=config.block_size, caching=True, best=hits, infinite=hits
    )
    assert sum(parts.values()) == trace.prompt_tokens[order].sum()
    assert min(parts.values()) >= 0


def test_a_trace_without_ids_tells_nothing() -> None:
    trace = replace(make_trace([10], [[1]], 8), prefix=None)
    assert losses(trace, [0], 8) == {"id granularity": 10}
