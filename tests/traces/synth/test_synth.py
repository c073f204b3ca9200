"""The generator, and the bundled trace it made."""

from __future__ import annotations

import gzip
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.traces import LENGTH, Trace, TraceError, bundled_path, read_trace
from kvsim.traces.synth.synth import ChatService, synthesize_chat, write_sample

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def sample() -> Trace:
    return read_trace(bundled_path("chat-2k"))


def test_the_bundled_file_is_made_again_byte_by_byte(tmp_path: Path) -> None:
    bundled = bundled_path("chat-2k")
    write_sample(tmp_path / bundled.name)
    # compared unpacked: packed bytes depend on the zlib that Python was built with
    assert gzip.decompress((tmp_path / bundled.name).read_bytes()) == gzip.decompress(
        bundled.read_bytes()
    )
    assert bundled.read_bytes()[4:8] == bytes(4), "the gzip header holds no time"
    assert bundled.stat().st_size < 600_000


def test_the_sample_is_a_plausible_chat_service(sample: Trace) -> None:
    assert len(sample) == 2_000
    assert sample.arrival_ns[0] == 0
    assert 500 < sample.arrival_ns[-1] / 1e9 < 700
    assert 700 < sample.prompt_tokens.mean() < 1_200
    assert 180 < sample.output_tokens.mean() < 220
    assert sample.max_tokens is not None
    assert sample.ends_by is not None
    capped = sample.ends_by == LENGTH
    assert (sample.output_tokens[capped] == sample.max_tokens[capped]).all()
    assert 0 < capped.mean() < 0.1


def test_a_next_turn_repeats_the_chain_and_comes_after_a_while(sample: Trace) -> None:
    assert sample.prefix is not None
    assert sample.after_request is not None
    assert sample.delay_ns is not None
    assert sample.turn is not None
    assert sample.session is not None
    assert sample.prefix.covers_output
    offsets = sample.prefix.offsets.tolist()
    chains = [sample.prefix.ids[start:end].tolist() for start, end in pairwise(offsets)]
    gaps = []
    for row, before in enumerate(sample.after_request.tolist()):
        known = int(sample.prompt_tokens[row] + sample.output_tokens[row])
        assert len(chains[row]) == -(-known // 16)
        if before < 0:
            assert sample.turn[row] == 0
            continue
        assert sample.session[row] == sample.session[before]
        assert sample.turn[row] == sample.turn[before] + 1
        assert chains[row][: len(chains[before])] == chains[before]
        said = sample.prompt_tokens[before] + sample.output_tokens[before]
        assert sample.prompt_tokens[row] > said
        gap = int(sample.arrival_ns[row] - sample.arrival_ns[before])
        assert gap > sample.delay_ns[row] > 0
        gaps.append(gap / 1e9)
    assert 20 < np.median(gaps) < 60


def test_sessions_share_system_prompts_and_nothing_else(sample: Trace) -> None:
    assert sample.prefix is not None
    assert sample.session is not None
    sessions: dict[int, set[str]] = {}
    for row, (start, end) in enumerate(pairwise(sample.prefix.offsets.tolist())):
        for block in sample.prefix.ids[start:end].tolist():
            sessions.setdefault(block, set()).add(sample.session[row])
    shared = {block for block, users in sessions.items() if len(users) > 1}
    assert len(shared) == sum(tokens // 16 for tokens in ChatService().system_tokens)


def test_the_same_seed_gives_the_same_trace_and_another_does_not() -> None:
    few = ChatService(num_requests=40)
    first, again, other = (synthesize_chat(np.random.default_rng(seed), few) for seed in (1, 1, 2))
    assert first.arrival_ns.tolist() == again.arrival_ns.tolist()
    assert first.arrival_ns.tolist() != other.arrival_ns.tolist()
    assert len(first) == 40


def test_an_unknown_bundled_name_lists_the_choices() -> None:
    with pytest.raises(TraceError, match=r"'chat' is unknown .*'chat-2k'.*: chat-2k"):
        bundled_path("chat")
