"""Recordings are bounded, say the same at every resolution, and come back as they were saved."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.block_map import BlockMap, BlockRecording, PoolFacts, RecordOptions
from kvsim.sim.block_map.places.base import check_drawable
from kvsim.sim.metrics.shares import PRIMITIVES
from kvsim.sim.run.run import simulate
from kvsim.sim.scenario.loader import load_scenario
from kvsim.traces.trace.trace import Trace
from tests.engine_config import engine_config
from tests.sim.block_map.conftest import trace_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kvsim.sim.engine.stepper import Stepper

S = 10**12


def one_request(**columns: object) -> Trace:
    one = np.ones(1, dtype=np.int64)
    return Trace("one", 0 * one, 32 * one, 4 * one, **columns)  # type: ignore[arg-type]


def same(one: BlockMap, other: BlockMap) -> bool:
    return all(
        np.array_equal(getattr(one, field.name), getattr(other, field.name))
        for field in fields(BlockMap)
        if field.name != "facts"
    )


def state(found: BlockMap, name: str) -> np.ndarray:
    return found.slots[:, PRIMITIVES.index(name)]


@pytest.mark.parametrize("most_snapshots", [1, 2, 7, 50])
def test_no_more_snapshots_than_asked_for(
    record: Callable[..., BlockMap], most_snapshots: int
) -> None:
    found = record("blocks", RecordOptions(most_snapshots=most_snapshots))
    assert 0 < len(found) <= most_snapshots
    if most_snapshots >= 7:
        assert len(found) > most_snapshots // 4
    assert (np.diff(found.time_ps) > 0).all()


class Looking(BlockRecording):
    """Looks at its pool while the run goes on."""

    def __init__(self, facts: PoolFacts, options: RecordOptions) -> None:
        super().__init__(options)
        self.seen: dict[int, np.ndarray] = {}
        self._facts = facts

    def planned(self, stepper: Stepper, now_ps: int) -> None:
        super().planned(stepper, now_ps)
        found = self.so_far(self._facts)
        assert len(found) <= 2
        self.seen[int(found.time_ps[-1])] = found.slots[-1]


@pytest.mark.parametrize("preset", ["orca-pow2", "vllm-0.32"])
def test_what_is_seen_while_it_runs_is_what_is_told_afterwards(preset: str) -> None:
    roomy = {"engine.max_model_len": 2048, "engine.kv_memory": "1GiB"}
    scenario = load_scenario(preset).with_values(roomy)
    facts = PoolFacts.of(simulate(trace_of(), scenario), preset)
    looking = Looking(facts, RecordOptions(most_snapshots=10**6, first_width_ps=10**9))
    run = simulate(trace_of(), scenario, listener=looking)
    assert not any(run.engine.recorder.preemptions), "who is put out leaves more unfilled"
    afterwards = looking.block_map(facts)
    assert state(afterwards, "never").any()
    assert state(afterwards, "future").any()
    assert len(afterwards) >= len(looking.seen) > 100
    for at, time_ps in enumerate(afterwards.time_ps[: len(looking.seen)].tolist()):
        assert np.array_equal(looking.seen[time_ps], afterwards.slots[at]), time_ps


def test_thinning_loses_no_eviction(record: Callable[..., BlockMap]) -> None:
    every = record("blocks", RecordOptions(most_snapshots=10**6, first_width_ps=1))
    few = record("blocks", RecordOptions(most_snapshots=10))
    blocks_lost = np.flatnonzero(every.evicted.sum(axis=0))
    assert len(blocks_lost) > 5
    assert np.array_equal(np.flatnonzero(few.evicted.sum(axis=0)), blocks_lost)


def test_folding_keeps_all_sums(record: Callable[..., BlockMap]) -> None:
    fine = record("contiguous", RecordOptions(most_cells=4096))
    coarse = record("contiguous", RecordOptions(most_cells=10))
    assert coarse.grid.num_cells <= 10 < fine.grid.num_cells
    assert coarse.facts.cell_slots % 16 == 0
    assert np.array_equal(coarse.time_ps, fine.time_ps)
    assert np.array_equal(coarse.slots.sum(axis=2), fine.slots.sum(axis=2))


def test_a_cell_is_a_block_where_there_is_room(maps: list[BlockMap]) -> None:
    for found in maps:
        assert found.facts.cell_slots == 16
        assert found.grid.num_cells == -(-found.facts.num_slots // 16) <= 4096


def test_what_there_is_to_see(maps: list[BlockMap]) -> None:
    contiguous, blocks, tree = maps
    assert state(contiguous, "hole").any()
    assert state(contiguous, "future").any()
    assert state(contiguous, "padding").sum() == 0
    for found in (blocks, tree):
        assert (found.owners > 1).any()
        assert state(found, "cached").any()
        assert found.evicted.any()
    assert state(blocks, "unusable")[:, 0].min() == 16


def test_at_the_end_nobody_owns(maps: list[BlockMap]) -> None:
    for found in maps:
        assert (found.owner[-1] == -1).all()
        assert found.running[-1] == found.waiting[-1] == 0


def test_a_window_is_kept_to(record: Callable[..., BlockMap]) -> None:
    found = record("blocks", RecordOptions.of_window("1s..2s"))
    assert 50 < len(found) <= 240
    assert found.time_ps.min() >= S
    assert found.time_ps.max() <= 2 * S


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1s", "allowed is FROM..TO"),
        ("1..2", "allowed is FROM..TO"),
        ("2s..1s", "ends before it starts"),
    ],
)
def test_windows_that_are_none(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RecordOptions.of_window(text)


def test_a_window_after_the_run_is_an_empty_map(
    record: Callable[..., BlockMap], tmp_path: Path
) -> None:
    found = record("blocks", RecordOptions.of_window("1000s..1001s"))
    assert len(found) == 0
    found.save(tmp_path / "blocks.parquet")
    assert same(BlockMap.load(tmp_path / "blocks.parquet"), found)
    assert found.at(5) == 0


def test_maps_come_back_and_bytes_are_the_same(maps: list[BlockMap], tmp_path: Path) -> None:
    for found in maps:
        paths = [tmp_path / "one", tmp_path / "other"]
        for path in paths:
            found.save(path)
        assert paths[0].read_bytes() == paths[1].read_bytes()
        back = BlockMap.load(paths[0])
        assert back.facts == found.facts
        assert same(back, found)


def test_two_recordings_of_a_run_are_equal(record: Callable[..., BlockMap]) -> None:
    again = record.__wrapped__("<i>tree</i>")  # type: ignore[attr-defined]  # past the cache
    assert same(again, record("<i>tree</i>"))


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "blocks.parquet"
    path.write_text("no parquet")
    with pytest.raises(ValueError, match="is not a block map of schema"):
        BlockMap.load(path)


def test_the_smallest_pool() -> None:
    recording = BlockRecording()
    values = {"num_gpu_blocks_override": 4, "max_model_len": 48, "max_num_batched_tokens": 48}
    small = load_scenario("vllm-0.32").with_values(
        {f"engine.{name}": value for name, value in values.items()}
    )
    run = simulate(one_request(), small, listener=recording)
    found = recording.block_map(PoolFacts.of(run, "small"))
    assert found.grid.num_cells == 4
    assert found.slots.sum(axis=(1, 2)).tolist() == [64] * len(found)
    assert found.owner.max() == 0


def test_nobody_can_draw_what_does_not_say_where_it_lies() -> None:
    config = engine_config(allocator__kind="my:Own")
    with pytest.raises(ValueError, match="cannot draw allocator 'my:Own'"):
        check_drawable(config, one_request())


def test_sequence_groups_are_refused() -> None:
    trace = one_request(num_samples=np.full(1, 3))
    with pytest.raises(ValueError, match="cannot draw sequence groups"):
        check_drawable(engine_config(allocator__samples="group"), trace)
    check_drawable(engine_config(allocator__samples="group"), one_request())
    check_drawable(SchedulerConfig(), trace)
