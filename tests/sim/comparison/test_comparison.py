"""One trace under several scenarios: order, shares, equal memory, equal results, refusals."""

from __future__ import annotations

import errno
import json
import operator
import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import active_children
from typing import TYPE_CHECKING, Any

import pytest

from kvsim.sim.block_map import RecordOptions
from kvsim.sim.comparison import processes as comparison_processes
from kvsim.sim.comparison.comparison import Comparison, compare
from kvsim.sim.comparison.processes import run_in_processes
from kvsim.sim.comparison.reference import differences_to_lru, is_reference
from kvsim.sim.comparison.runs import Case
from kvsim.sim.comparison.scenarios import allocator_scenarios, compared, varied_values
from kvsim.sim.documents.comparison import Views
from kvsim.sim.metrics.shares import PRIMITIVES, SOSP23, STATES, VIEWS
from kvsim.sim.scenario.setup import set_up
from kvsim.traces import bundled_path, read_trace
from tests.patience import PATIENCE_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kvsim.sim.comparison.runs import LivePool
    from kvsim.sim.scenario.scenario import Scenario

ALL = "orca-max,orca-pow2,orca-oracle,paged,prefix"
NONE: dict[str, dict[str, object]] = {"": {}}
S = 10**12
OPTIONS: dict[str, Any] = {"rate_scale": 30}


def scenarios(allocators: str = ALL, *vary: str) -> dict[str, Scenario]:
    small = {"engine.kv_memory": "2GiB", "engine.max_model_len": 4096}
    bases = {name: one.with_values(small) for name, one in allocator_scenarios(allocators).items()}
    return compared(bases, varied_values(vary))


@pytest.fixture(scope="module")
def result() -> Comparison:
    trace = read_trace(bundled_path("chat-2k"), limit=120)
    return compare(trace, scenarios(), jobs=1, **OPTIONS)


def test_paged_memory_holds_more_tokens_than_any_reservation(result: Comparison) -> None:
    assert [row.name for row in result.rows] == ALL.split(",")
    shares = [row.views.six for row in result.rows[:4]]
    tokens = [share.token for share in shares if share is not None]
    assert len(tokens) == 4
    assert tokens == sorted(tokens)
    assert len(set(tokens)) == 4


def test_shares_add_up_to_1(result: Comparison) -> None:
    for row in result.rows:
        shares, views = row.kv_bytes_share, row.views
        for share in (shares.all_time, shares.while_waiting, views.six, views.sosp23):
            assert share is not None
            assert sum(share.to_dict().values()) == pytest.approx(1, abs=1e-12)


def test_the_document_has_its_schema(result: Comparison) -> None:
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert set(document) == {"schema", "traces", "rows", "differences_to_lru", "notes"}
    assert document["schema"] == "kvsim.comparison/1"
    assert [trace["requests"] for trace in document["traces"]] == [120]
    for row in document["rows"]:
        assert set(row["kv_bytes_share"]) == {"all_time", "while_waiting"}
        assert all(set(share) == set(PRIMITIVES) for share in row["kv_bytes_share"].values())
        assert set(row) == {
            *("name", "trace", "scenario", "kv_bytes_share", "views", "kv_in_use", "metrics"),
            *("verdict", "notes", "rate_scale", "cost", "verified"),
        }
        assert set(row["views"]["six"]) == set(STATES)
        assert (
            set(row["views"]["sosp23"])
            == set(SOSP23)
            == {*("token", "reserved", "internal", "external")}
        )
        waiting = row["kv_bytes_share"]["while_waiting"]
        for view, groups in VIEWS.items():
            for state, parts in groups.items():
                share = sum(waiting[part] for part in parts)
                assert row["views"][view][state] == pytest.approx(share, abs=1e-12)
        assert row["verdict"]["kind"] in {"stable", "overloaded", "too short"}
        metrics = row["metrics"]
        assert metrics["finished"] == 120
        assert isinstance(metrics["peak_running"], int)
        assert metrics["mean_running"] < metrics["peak_running"] <= 120
        assert metrics["mean_running_while_waiting"] <= metrics["peak_running"]
        assert row["scenario"]["engine"]["max_model_len"] == 4096


def test_shares_of_no_time_are_none() -> None:
    trace = read_trace(bundled_path("chat-2k"), limit=3)
    row = compare(trace, scenarios("paged"), jobs=1).rows[0]
    assert row.kv_bytes_share.while_waiting is None
    assert row.views == Views(six=None, sosp23=None)


def test_several_traces_make_a_row_each() -> None:
    trace = read_trace(bundled_path("chat-2k"), limit=20)
    both = [replace(trace, name="a"), replace(trace, name="b")]
    rows = compare(both, scenarios("paged,prefix"), jobs=1, **OPTIONS).rows
    assert [row.name for row in rows] == ["paged, a", "paged, b", "prefix, a", "prefix, b"]
    assert [row.trace for row in rows] == ["a", "b", "a", "b"]
    assert rows[0].metrics == rows[1].metrics


def test_a_tree_beside_hashes() -> None:
    """Pages of one token beside blocks of 16: two indexes, no sweep of block sizes."""
    trace = read_trace(bundled_path("chat-2k"), limit=60)
    rows = compare(trace, scenarios("prefix,radix"), jobs=1).rows
    prefix, radix = (row.metrics.hit_percent for row in rows)
    assert isinstance(prefix, float)
    assert isinstance(radix, float)
    assert 0 < prefix <= radix
    assert any(note.startswith("hit rates are lower bounds") for note in rows[1].notes)
    with pytest.raises(ValueError, match="block sizes 1, 16 cannot be compared on chat-2k"):
        compare(trace, scenarios("radix", "engine.block_size=1,16"), jobs=1)


def test_processes_change_nothing(result: Comparison) -> None:
    trace = read_trace(bundled_path("chat-2k"), limit=120)
    seen: list[tuple[int, int]] = []
    again = compare(
        trace, scenarios(), jobs=2, on_progress=lambda *done: seen.append(done), **OPTIONS
    )
    assert json.dumps(again.to_dict()) == json.dumps(result.to_dict())
    assert seen == sorted(seen)
    assert seen[-1] == (600, 600), "requests that ended, of all in five runs"


def recorded(
    folder: Path, on_progress: Callable[[int, int], None] = lambda *_: None, **options: Any
) -> tuple[str, list[bytes]]:
    """Document and block maps of a comparison of three allocators, in order."""
    folder.mkdir()
    trace = read_trace(bundled_path("chat-2k"), limit=20)
    found = compare(
        trace,
        scenarios("orca-max,paged,prefix"),
        record=RecordOptions(),
        blocks=folder,
        on_progress=on_progress,
        **OPTIONS | options,
    )
    return json.dumps(found.to_dict()), [path.read_bytes() for path in sorted(folder.iterdir())]


def test_who_watches_changes_nothing(tmp_path: Path) -> None:
    done: list[tuple[int, int]] = []
    clocks: dict[str, list[int]] = {}

    def watch(pool: LivePool, now_ps: int) -> None:
        assert pool.recording.snapshots[-1].time_ps <= now_ps
        clocks.setdefault(pool.case.name, []).append(now_ps)

    alone = recorded(tmp_path / "alone", jobs=1)
    assert len(alone[1]) == 3
    assert recorded(tmp_path / "told", lambda *n: done.append(n), watch=watch) == alone
    assert done == sorted(done)
    assert done[-1] == (60, 60)
    assert list(clocks) == ["orca-max", "paged", "prefix"]
    assert all(times == sorted(times) and times[-1] > S for times in clocks.values())


def test_who_watches_no_more_stops_all_runs(tmp_path: Path) -> None:
    def watch(_pool: LivePool, now_ps: int) -> None:
        if now_ps > S // 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recorded(tmp_path / "stopped", watch=watch)
    assert list((tmp_path / "stopped").iterdir()) == []


def test_all_allocators_get_the_same_bytes() -> None:
    bases = {
        name: one.with_values({"engine.num_gpu_blocks_override": 1000})
        for name, one in allocator_scenarios("orca-oracle,prefix").items()
    }
    setups = [set_up(scenario) for scenario in compared(bases, NONE).values()]
    assert len({setup.pool.pool_bytes for setup in setups}) == 1
    assert [setup.pool.num_blocks for setup in setups] == [16_000, 1000]
    planned = compared(allocator_scenarios("orca-oracle,paged,radix,vllm-0.8"), NONE)
    assert len({set_up(scenario).pool.pool_bytes for scenario in planned.values()}) == 1


def test_varied_keys_multiply() -> None:
    made = scenarios("paged,prefix", "engine.block_size=16,32", "engine.max_num_seqs=8,9")
    assert len(made) == 8
    scenario = made["prefix, engine.block_size=32, engine.max_num_seqs=9"]
    assert (scenario.engine.block_size, scenario.engine.max_num_seqs) == (32, 9)
    sizes = scenarios("orca-oracle,paged", "engine.kv_memory=2GiB,3GiB")
    pools = [set_up(one).pool.pool_bytes / 2**30 for one in sizes.values()]
    assert pools == [2, 2, 3, 3]
    assert varied_values([]) == NONE
    lists = varied_values(["engine.kv_groups=[1, 2],[3]"])
    assert [values["engine.kv_groups"] for values in lists.values()] == [[1, 2], [3]]


@pytest.mark.parametrize(
    ("allocators", "vary", "message"),
    [
        (
            "paged,lisp",
            "",
            "'lisp' is unknown; choices: paged, prefix, radix, fast",
        ),
        ("radix", "allocator.kind=contiguous", "^radix, alloc.*allocator.prefix cannot be 'radix'"),
        ("paged,paged", "", "names 'paged' twice"),
        ("paged", "engine.block_size", "not of the form table.key=a,b,c"),
        ("paged", "engine.block_size=16,,8", "not of the form table.key=a,b,c"),
        ("paged", "engine.block_size=16,16", "names a key or a value twice"),
        ("paged", "engine.blok_size=16", "key engine.blok_size is unknown"),
        ("orca-max,paged", "engine.max_num_batched_tokens=4096", "^orca-max, engine.*no token"),
    ],
)
def test_what_cannot_be_compared_is_refused(allocators: str, vary: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scenarios(allocators, *filter(None, [vary]))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_fault_of_a_run_names_its_scenario(jobs: int) -> None:
    trace = replace(read_trace(bundled_path("chat-2k"), limit=5), session=None)
    named = scenarios("paged,prefix").items()
    fair = {name: scenario.with_values({"queue.policy": "fair"}) for name, scenario in named}
    with pytest.raises(ValueError, match=r"^(paged|prefix): queue.policy = 'fair'"):
        compare(trace, fair, jobs=jobs)


class DeadlyStart:
    """Ends the first process that it is handed to, and is slow to reach the second one."""

    times = 0

    def __call__(self, *_: object) -> None: ...

    def __reduce__(self) -> tuple[Any, ...]:
        DeadlyStart.times += 1
        if DeadlyStart.times == 1:
            return os._exit, (1,)
        first = active_children()
        while any(process.is_alive() for process in first):
            time.sleep(0.05)
        time.sleep(0.5)  # the pool finds out
        return partial, (operator.is_,)  # takes what a process is started with


def test_a_process_that_dies_while_another_starts_leaves_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pool would lose sight of the second one, which waits for work for ever."""
    monkeypatch.setattr(comparison_processes, "_start", DeadlyStart())
    cases = [Case(name, one) for name, one in scenarios("paged,prefix").items()]
    traces = [read_trace(bundled_path("chat-2k"), limit=5)]
    options: Any = {}
    before = set(active_children())
    with pytest.raises(OSError, match="a process that simulated was killed"):
        run_in_processes(traces, cases, options, 2, lambda *_: None)
    wait_until(lambda: not set(active_children()) - before, active_children)


def test_a_script_without_a_guard_is_told_at_once(tmp_path: Path) -> None:
    """Its processes import it anew; its trace is more than a pipe holds."""
    script = tmp_path / "script.py"
    script.write_text(
        "from kvsim.sim import Scenario, compare\n"
        "from kvsim.traces import bundled_path, read_trace\n"
        "trace = read_trace(bundled_path('chat-2k'))\n"
        "names = ('vllm-0.12', 'vllm-0.32')\n"
        "compare(trace, {name: Scenario.load(name) for name in names}, jobs=2)\n",
        "utf-8",
    )
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1, "the caller's own"
    assert "put what it does under if __name__ == '__main__':, or give jobs=1" in done.stderr


def test_a_disk_without_room_for_the_traces_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    trace = read_trace(bundled_path("chat-2k"), limit=5)
    monkeypatch.setattr("kvsim.sim.comparison.processes.pickle.dump", full)
    with pytest.raises(OSError, match=r"-draft-\S+ has no room for the traces \(No space left"):
        compare(trace, scenarios("paged,prefix"), jobs=2)


def test_pipes_closed_while_a_process_starts_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def submit(*_: object) -> None:
        raise ValueError("bad value(s) in fds_to_keep")

    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit)
    trace = read_trace(bundled_path("chat-2k"), limit=5)
    with pytest.raises(OSError, match="a process that simulated was killed"):
        compare(trace, scenarios("paged,prefix"), jobs=2)


def test_a_process_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison_processes, "_start", os._exit)
    monkeypatch.setattr(comparison_processes, "_run", divmod)
    trace = read_trace(bundled_path("chat-2k"), limit=5)
    with pytest.raises(OSError, match="a process that simulated was killed"):
        compare(trace, scenarios("paged,prefix"), jobs=2)


def test_what_reads_the_future_is_told_as_a_difference_to_lru() -> None:
    trace = read_trace(bundled_path("chat-2k"), limit=150)
    vary = "eviction.policy=lru,fifo,furthest-next-use"
    rows = compare(trace, scenarios("prefix", vary), jobs=1, **OPTIONS)
    lru, fifo, future = rows.rows
    (told,) = differences_to_lru(rows.rows)
    assert rows.to_dict()["differences_to_lru"] == [told.to_dict()]
    assert (told.name, told.against) == (future.name, lru.name)
    assert future.metrics.hit_percent is not None
    assert lru.metrics.hit_percent is not None
    gained = future.metrics.hit_percent - lru.metrics.hit_percent
    assert told.metrics.hit_percent == gained > 0
    assert future.metrics.ttft_s_p50 is not None
    assert lru.metrics.ttft_s_p50 is not None
    assert told.metrics.ttft_s_p50 == (future.metrics.ttft_s_p50 - lru.metrics.ttft_s_p50)
    assert told.metrics.goodput_requests_per_s is None, "no limits, no goodput"
    assert [is_reference(row) for row in (lru, fifo, future)] == [False, False, True]
    assert differences_to_lru([fifo, future]) == [], "nothing to compare with"


def test_nothing_to_compare_is_refused() -> None:
    trace = read_trace(bundled_path("chat-2k"), limit=2)
    with pytest.raises(ValueError, match="nothing to compare: scenarios is empty"):
        compare(trace, {})
    with pytest.raises(ValueError, match="nothing to compare: traces is empty"):
        compare([], scenarios("paged"))
    with pytest.raises(ValueError, match="a scenario is called ''"):
        compare(trace, {"": scenarios("paged")["paged"]})


@pytest.mark.parametrize("jobs", ["2", 2.5, 0, -1, True])
def test_jobs_are_a_whole_number(jobs: Any) -> None:
    trace = read_trace(bundled_path("chat-2k"), limit=2)
    with pytest.raises(ValueError, match=r"^jobs is .* whole number from 1, or None"):
        compare(trace, scenarios("paged"), jobs=jobs)
