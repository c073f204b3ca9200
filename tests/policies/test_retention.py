"""What each kind keeps: by hand, by definition, and the rules that all of them obey."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.policies.allocators.holes import Holes
from kvsim.policies.allocators.paged import PagedAllocator
from kvsim.policies.retention import (
    RETENTION,
    AttentionScores,
    HeavyHitters,
    SinksRecent,
    make_retention,
    read_scores,
)
from kvsim.policies.retention.mass import mean_mass_kept
from kvsim.policies.scheduler_config import KVGroup
from kvsim.policies.sequence import Sequence
from tests.engine_config import engine_config

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.policies.retention.base import Retention

CONFIG = engine_config(
    block_size=4,
    num_gpu_blocks=21,
    max_num_batched_tokens=32,
    retention__budget=6,
    retention__sinks=2,
    retention__heads=2,
    retention__head_agreement=0.5,
)
SCORES = AttentionScores(np.array([[9.0, 1, 5, 2, 8, 1, 1, 1, 1, 1, 1, 1]]))


def positions(retention: Retention, computed: int) -> list[int]:
    return [token for part in retention.kept(0, computed) for token in part]


# ---- by hand -------------------------------------------------------------------------------------


def test_sinks_and_recent_by_hand() -> None:
    retention = SinksRecent(2, 4)  # position 10 attends to 0, 1 and 7, 8, 9, and to itself
    assert positions(retention, 10) == [0, 1, 7, 8, 9]
    assert positions(retention, 5) == [0, 1, 2, 3, 4]
    assert positions(retention, 6) == [0, 1, 3, 4, 5]


def test_fifo_by_hand() -> None:
    retention = make_retention(engine_config(CONFIG, retention__kind="fifo"), KVGroup())
    assert positions(retention, 10) == [5, 6, 7, 8, 9]
    assert positions(retention, 5) == [0, 1, 2, 3, 4]


def test_heavy_hitters_by_hand() -> None:
    retention = HeavyHitters(2, 3, scores=SCORES)
    # position 7 attends to the last three, itself included, and of 0..4 to the heaviest two
    assert positions(retention, 7) == [0, 4, 5, 6]
    assert positions(retention, 6) == [0, 2, 4, 5]  # 4 is among the last ones yet
    assert positions(retention, 4) == [0, 1, 2, 3]


def test_a_slot_is_kept_while_any_head_keeps_it() -> None:
    layers = AttentionScores(np.array([[9.0, 1, 5, 2, 1, 1], [1.0, 9, 2, 5, 1, 1]]))
    assert positions(HeavyHitters(1, 2, scores=layers), 5) == [0, 1, 4]
    assert positions(HeavyHitters(1, 2, num_heads=3, agreement=1.0), 9)[-1] == 8
    assert len(positions(HeavyHitters(1, 2, num_heads=3, agreement=1.0), 9)) == 2


# ---- rules of all kinds --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(RETENTION.builtins))
@pytest.mark.parametrize("budget", [3, 5, 9])
def test_dropped_tokens_never_come_back(kind: str, budget: int) -> None:
    config = engine_config(CONFIG, retention__kind=kind, retention__budget=budget)
    retention = make_retention(config, KVGroup(), seed=1)
    before: set[int] = set()
    for computed in range(60):
        parts = retention.kept(7, computed)
        bounds = [bound for part in parts if part for bound in (part.start, part.stop)]
        assert bounds == sorted(set(bounds)), "ranges are in order and do not touch"
        kept = {token for part in parts for token in part}
        assert kept <= set(range(computed))
        assert kept <= before | {computed - 1}
        if retention.size is not None:
            least = min(computed, retention.size - 1)
            assert least <= len(kept) <= least * retention.num_heads
        before = kept


@pytest.mark.parametrize("kind", list(RETENTION.builtins))
def test_kept_depends_on_nothing_but_the_length(kind: str) -> None:
    config = engine_config(CONFIG, retention__kind=kind)
    asked = make_retention(config, KVGroup(), seed=1)
    for computed in (40, 3, 40, 17, 0, 300):
        fresh = make_retention(config, KVGroup(), seed=1)
        assert asked.kept(5, computed) == fresh.kept(5, computed)
    asked.forget(5)
    assert asked.kept(5, 17) == fresh.kept(5, 17)


@given(
    st.integers(0, 5), st.integers(1, 5), st.integers(1, 4), st.integers(0, 300), st.floats(0, 1)
)
def test_heavy_hitters_by_definition(
    heavy: int, recent: int, heads: int, computed: int, agreement: float
) -> None:
    retention = HeavyHitters(heavy, recent, num_heads=heads, agreement=agreement, seed=4)
    old = max(0, computed - recent + 1)
    rows = list(islice(retention.rows(2), old))
    kept = set(range(old, computed))
    for head in range(heads):
        kept |= set(sorted(range(old), key=lambda token: -rows[token][head])[:heavy])
    assert [token for part in retention.kept(2, computed) for token in part] == sorted(kept)


@given(st.integers(1, 20), st.integers(0, 50))
def test_fifo_is_a_window_and_so_is_recent_without_sinks(budget: int, computed: int) -> None:
    config = engine_config(CONFIG, retention__budget=budget, retention__sinks=0)
    window = make_retention(config, KVGroup(sliding_window=budget))
    for kind in ("fifo", "sinks-recent"):
        chosen = make_retention(engine_config(config, retention__kind=kind), KVGroup())
        assert chosen.kept(0, computed) == window.kept(0, computed)
        assert chosen.most_blocks(4, 8, 64) == window.most_blocks(4, 8, 64)
        assert chosen.window is None


# ---- block tables --------------------------------------------------------------------------------


def make_sequence(prompt_tokens: int, index: int = 0, public: str = "") -> Sequence:
    """A sequence whose leading blocks of 4 tokens are named by all letters of ``public`` so far."""
    ends = range(1, len(public) + 1)
    names = [(-int.from_bytes(public[:end].encode()), 4 * end) for end in ends]
    return Sequence(index, f"r{index}", 0, prompt_tokens, 50, 0, names)


def enter(allocator: PagedAllocator, sequence: Sequence) -> int:
    hit = allocator.find_hit(sequence)
    allocator.admit(sequence, hit, sequence.num_tokens - hit.tokens)
    sequence.num_computed_tokens = sequence.num_tokens
    return hit.tokens


def decode(allocator: PagedAllocator, sequence: Sequence, tokens: int = 1) -> None:
    for _ in range(tokens):
        sequence.num_tokens += 1
        assert allocator.grow(sequence, 1)
        sequence.num_computed_tokens += 1
        allocator.check_invariants()


def table(allocator: PagedAllocator, sequence: Sequence) -> list[int]:
    return [block.id for block in allocator.groups[0].tables[sequence.index]]


def test_tables_by_hand() -> None:
    """Block size 4, prompt of 12: see the worked examples of docs/retention.md."""
    tables = {}
    holes = {}
    for kind in ("sinks-recent", "fifo"):
        allocator = PagedAllocator(engine_config(CONFIG, retention__kind=kind))
        sequence = make_sequence(12)
        enter(allocator, sequence)
        assert allocator.usage([sequence]).padding == 0
        decode(allocator, sequence)
        tables[kind] = table(allocator, sequence)
        holes[kind] = allocator.usage([sequence]).padding
    # sinks 0, 1; of 12 computed tokens 9, 10, 11 stay: holes 2, 3 and 8
    assert (tables["sinks-recent"], holes["sinks-recent"]) == ([1, 0, 3, 4], 3)
    # the last five, 7 to 11, stay: holes 4, 5, 6
    assert (tables["fifo"], holes["fifo"]) == ([0, 2, 3, 4], 3)


def test_heavy_tokens_hold_their_blocks(tmp_path: Path) -> None:
    path = write_scores(tmp_path, [[9, 1, 1, 1, 1, 1, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1]])
    config = engine_config(
        CONFIG,
        retention__kind="heavy-hitters",
        retention__budget=4,
        retention__recent=2,
        max_model_len=16,
    )
    allocator = PagedAllocator(engine_config(config, retention__scores=str(path)))
    sequence = make_sequence(12)
    enter(allocator, sequence)
    decode(allocator, sequence)
    # 0 and 6 are heavy, 11 is recent: no block is empty, 9 of their 12 slots are
    assert table(allocator, sequence) == [1, 2, 3, 4]
    assert allocator.usage([sequence]).padding == 9
    sequence.in_flight = 1
    assert allocator.num_kept_by_head([sequence]) == 4  # 0, 6, 11 and the one being computed


def test_packing_by_hand(tmp_path: Path) -> None:
    path = write_scores(tmp_path, [[9, 1, 1, 1, 1, 1, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1]])
    config = engine_config(
        CONFIG,
        retention__kind="heavy-hitters",
        retention__budget=4,
        retention__recent=2,
        max_model_len=16,
    )
    config = engine_config(config, retention__scores=str(path), retention__compaction="eager")
    allocator = PagedAllocator(replace(config, enable_prefix_caching=False))
    sequence = make_sequence(12)
    enter(allocator, sequence)
    decode(allocator, sequence)
    assert allocator.relocations is not None
    # three blocks with one token each: two tokens move, one block is left; the next token takes
    # one of those given up
    assert (allocator.relocations.num_packed, allocator.relocations.packed_tokens) == (2, 2)
    assert table(allocator, sequence) == [0, 2, 0, 3]
    assert allocator.usage([sequence]).padding == 1


def test_a_published_block_takes_no_packed_token() -> None:
    config = engine_config(CONFIG, retention__kind="sinks-recent", retention__compaction="eager")
    allocator = PagedAllocator(config)
    sequence = make_sequence(12, public="abc")
    enter(allocator, sequence)
    decode(allocator, sequence)
    assert allocator.relocations is not None
    assert allocator.relocations.packed_tokens == 0


def test_after_the_first_drop_nothing_more_is_published() -> None:
    allocator = PagedAllocator(engine_config(CONFIG, retention__kind="fifo", retention__budget=14))
    sequence = make_sequence(12, public="abcdef")
    enter(allocator, sequence)
    decode(allocator, sequence, 2)
    assert allocator.pool.lookup((0, sequence.block_key(2, 4))) is not None
    decode(allocator, sequence, 6)  # 14 were computed when the first one fell out
    assert allocator.pool.lookup((0, sequence.block_key(3, 4))) is None
    assert allocator.groups[0].tables[0][0] is allocator.pool.null
    hit = allocator.find_hit(make_sequence(20, 1, "abcdef"))
    assert hit.tokens == 12, "what was published before stays findable, the dropped block too"
    again = make_sequence(20, 2, "abcdef")
    allocator.release(sequence)
    assert enter(allocator, again) == 12
    allocator.check_invariants()


def test_a_hit_needs_all_leading_blocks_and_references_what_is_kept() -> None:
    config = engine_config(CONFIG, retention__kind="sinks-recent")
    allocator = PagedAllocator(config)
    first = make_sequence(12, public="abc")
    enter(allocator, first)
    allocator.release(first)
    second = make_sequence(20, 1, "abc")
    hit = allocator.find_hit(second)
    assert hit.tokens == 12
    assert allocator.num_wanted(second, hit, 20) == 2 + 2  # blocks 0 and 2 of the hit, two new
    allocator.admit(second, hit, 8)
    assert table(allocator, second)[:3] == [1, 0, 3]
    assert allocator.usage([second]).padding == 3
    allocator.pool.index.pop((0, second.block_key(0, 4)))
    assert allocator.find_hit(make_sequence(20, 2, "abc")).tokens == 0


def test_a_whole_prompt_is_held_before_heavy_hitters_are_chosen() -> None:
    config = engine_config(CONFIG, retention__kind="heavy-hitters", retention__heads=1)
    allocator = PagedAllocator(replace(config, enable_prefix_caching=False))
    sequence = make_sequence(24)
    allocator.admit(sequence, allocator.find_hit(sequence), 16)
    sequence.num_computed_tokens = 16
    assert allocator.grow(sequence, 8)
    sequence.num_computed_tokens = 24
    assert (allocator.num_held(sequence), allocator.usage([sequence]).padding) == (6, 0)
    decode(allocator, sequence)
    kept = 24 - allocator.usage([sequence]).padding - 4 * table(allocator, sequence).count(0)
    assert kept == 5


@pytest.mark.parametrize("size", [1, 2, 4])
@given(data=st.data())
def test_packed_tokens_against_a_naive_account(size: int, data: st.DataObject) -> None:
    """Tokens only move, and no block is left that would fit into the others' holes."""
    holes, kept = Holes(size), set(range(16))
    num_entries = 16 // size
    held = [True] * num_entries
    own = [data.draw(st.booleans()) for _ in range(num_entries)]
    for _ in range(4):
        kept -= set(data.draw(st.lists(st.integers(0, 15), max_size=6)))
        parts = [range(token, token + 1) for token in sorted(kept)]
        for entry in holes.drop(parts, 16, held):
            held[entry] = False
        while move := holes.pack([a and b for a, b in zip(own, held, strict=True)], 16):
            held[move.entry] = False
            assert move.num_tokens > 0
        holes.check_invariants()
        in_holes = sum(mask.bit_count() for mask in holes.masks.values())
        assert sum(held) * size - in_holes == len(kept)


# ---- the file of scores --------------------------------------------------------------------------


def write_scores(folder: Path, layers: list[list[float]]) -> Path:
    lines = ["layer,position,score"]
    for layer, scores in enumerate(layers):
        lines += [f"{layer},{position},{score}" for position, score in enumerate(scores)]
    path = folder / "scores.csv"
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_scores_are_read_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("layer,position,score\n1,1,0.5\n0,0,2\n1,0,1e0\n0,1,0\n", "utf-8")
    assert read_scores(path).by_layer.tolist() == [[2, 0], [1, 0.5]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"line 1 is \[\]; expected layer,position,score"),
        ("layer,score\n", "expected layer,position,score"),
        ("layer,position,score\n", "has no scores"),
        ("layer,position,score\n0,0\n", "line 2 is '0,0'; expected a layer"),
        ("layer,position,score\n0,0,-1\n", "line 2 is '0,0,-1'; expected .* a finite score >= 0"),
        ("layer,position,score\n0,0,nan\n", "a finite score"),
        ("layer,position,score\n0,0,inf\n", "a finite score"),
        ("layer,position,score\n0,0,1,1\n", "line 2 is '0,0,1,1'"),
        ("layer,position,score\n0,0,1\n0,0,1\n", "line 3 gives layer 0, position 0 a second time"),
        ("layer,position,score\n0,0,1\n1,1,1\n", "layer 0 has no score for position 1"),
        ("layer,position,score\n0,0,0\n", "layer 0 scores position 0 with 0"),
        ("layer,position,score\n0,0,\xff\n", "line 2 is|is not a CSV text file"),
    ],
)
def test_bad_scores_are_refused_by_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "scores.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=message):
        read_scores(path)
    with pytest.raises(ValueError, match="no such file"):
        read_scores(tmp_path / "absent.csv")


def test_scores_are_read_again_only_when_they_changed(tmp_path: Path) -> None:
    path = write_scores(tmp_path, [[1, 2]])
    once = read_scores(path)
    assert read_scores(path) is once
    assert read_scores(write_scores(tmp_path, [[1, 2, 3]])).num_positions == 3


def test_a_spreadsheets_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("layer,position,score\n0,0,2\n", "utf-8-sig")
    assert read_scores(path).by_layer.tolist() == [[2]]


@pytest.mark.parametrize("score", [1e308, 5e-324])
def test_mass_of_scores_whose_sum_is_no_number(score: float) -> None:
    scores = AttentionScores(np.full((2, 12), score))
    assert mean_mass_kept(SinksRecent(0, 3), scores, {4: 1}) == pytest.approx(3 / 5)
    assert mean_mass_kept(HeavyHitters(1, 1, scores=scores), scores, {7: 1}) == pytest.approx(2 / 8)


def test_mass_kept_by_hand() -> None:
    fifo = SinksRecent(0, 3)
    # the decode at position 4 keeps 2, 3 and itself: 5 + 2 + 8 of 9 + 1 + 5 + 2 + 8
    assert mean_mass_kept(fifo, SCORES, {4: 1}) == pytest.approx(15 / 25)
    assert mean_mass_kept(fifo, SCORES, {4: 1, 1: 3}) == pytest.approx((15 / 25 + 3) / 4)
    heavy = HeavyHitters(2, 1, scores=SCORES)  # 0 and 2, and itself
    assert mean_mass_kept(heavy, SCORES, {4: 2}) == pytest.approx(22 / 25)
    assert mean_mass_kept(heavy, SCORES, {}) is None
