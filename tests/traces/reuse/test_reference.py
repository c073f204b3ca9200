"""Every figure of ``shared/traces/reference``, those of validation-targets section 5 among them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.traces import Trace, read_trace
from kvsim.traces.reuse import measure_reuse
from kvsim.traces.reuse.ceiling import ceiling_by_session

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOONCAKE = "mooncake-fast25/conversation_trace.first45min.jsonl.gz"


@pytest.fixture(scope="module")
def reference(shared: Path) -> Any:
    return json.loads((shared / "traces/reference/hit_ratios.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def slice_figures(reference: Any) -> Any:
    (figures,) = (entry for entry in reference["traces"] if entry["trace"] == MOONCAKE)
    return figures


@pytest.fixture(scope="module")
def mooncake(shared: Path) -> Trace:
    return read_trace(shared / "traces" / MOONCAKE)


def test_the_infinite_cache(mooncake: Trace, slice_figures: Any) -> None:
    reuse = measure_reuse(mooncake)
    ceiling, figures = reuse.ceiling, slice_figures["infinite_cache"]
    assert ceiling.requests == slice_figures["requests"]
    assert ceiling.blocks == slice_figures["total_blocks"]
    assert ceiling.unique_blocks == slice_figures["unique_blocks"]
    assert ceiling.prompt_tokens == slice_figures["total_input_tokens"]
    assert int(mooncake.output_tokens.sum()) == slice_figures["total_output_tokens"]
    assert reuse.accesses.block_tokens == slice_figures["block_size_tokens"]
    assert ceiling.blocks_seen_before == figures["blocks_seen_before"]
    assert ceiling.blocks_in_leading_run == figures["blocks_in_leading_run_seen_before"]
    assert ceiling.tokens_in_leading_run == figures["prompt_tokens_in_leading_run"]
    assert round(ceiling.block_ratio, 6) == figures["block_ratio"]
    assert round(ceiling.token_ratio, 6) == figures["token_ratio"]
    assert ceiling.requests_with_a_hit == figures["requests_with_a_hit"]
    assert ceiling.requests_fully_cached == figures["requests_fully_cached"]
    assert round(ceiling.mean_request_token_ratio, 4) == figures["mean_per_request_token_ratio"]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["lru", "fifo", "lfu"])
def test_the_plain_table(mooncake: Trace, slice_figures: Any, policy: str) -> None:
    reuse = measure_reuse(mooncake, "plain")
    for capacity, figures in slice_figures["plain_block_cache"][policy].items():
        ours = reuse.replayed(policy, int(capacity))
        assert (ours.blocks, round(ours.block_ratio, 6)) == (figures["hits"], figures["ratio"])
        if policy == "lru":
            assert reuse.curve.at(int(capacity)) == ours


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["lru", "fifo", "optimal"])
def test_the_tree_table(mooncake: Trace, slice_figures: Any, policy: str) -> None:
    table = slice_figures["prefix_tree_cache_second_half"]
    reuse = measure_reuse(mooncake, first=table["warmup_requests"])
    assert reuse.ceiling.prompt_tokens == table["measured_tokens"]
    assert reuse.ceiling.tokens_in_leading_run == table["ceiling_hit_tokens"]
    for capacity, figures in table[policy].items():
        if policy == "lru":
            ours = reuse.curve.at(int(capacity))
        else:
            ours = reuse.replayed(policy, int(capacity))
        wanted = (figures["hit_tokens"], figures["ratio"])
        assert (ours.tokens, round(ours.token_ratio, 6)) == wanted
    if policy == "lru":
        assert reuse.replayed("lru", 10_000) == reuse.curve.at(10_000)


@pytest.mark.slow
def test_kv_cache_tester(public_trace: Callable[[str], Trace], reference: Any) -> None:
    """Each session by itself: block ids of two sessions are two blocks."""
    ((file, figures),) = reference["kv_cache_tester_infinite"].items()
    trace = public_trace(file)
    assert trace.session is not None
    reuse = measure_reuse(trace)
    ceiling = reuse.ceiling
    assert (ceiling.requests, ceiling.blocks) == (figures["requests"], figures["blocks"])
    assert ceiling.prompt_tokens == figures["input_tokens"]
    assert int(trace.output_tokens.sum()) == figures["output_tokens"]
    assert int(np.count_nonzero(trace.output_tokens == 0)) == figures["zero_output_requests"]
    assert ceiling.unique_blocks == figures["unique_blocks"]
    assert ceiling.blocks_in_leading_run == figures["leading_run_hit_blocks"]
    assert round(ceiling.block_ratio, 6) == figures["block_ratio"]
    assert round(ceiling.token_ratio, 6) == figures["token_ratio"]
    sessions = ceiling_by_session(reuse.accesses, reuse.counted, trace.session)
    assert len(sessions) == figures["traces"]
    for session, wanted in figures["per_trace"].items():
        ours = sessions[session]
        assert ours.requests == wanted["requests"]
        assert ours.prompt_tokens == wanted["input_tokens"]
        assert ours.hit_tokens == wanted["hit_tokens"]
