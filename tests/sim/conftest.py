"""Recorded schedules, and small hand-made recorders with known answers."""

from __future__ import annotations

import inspect
import textwrap
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.conformance.cache_log import CacheLog, cache_log
from kvsim.sim.conformance.recordings import find_trace, read_records
from kvsim.sim.conformance.vllm_log import GoldenLog, read_log
from kvsim.sim.cost.step_cost import LinearCost, StepTime
from kvsim.sim.pool.shape import PoolShape
from kvsim.sim.recording.recorder import Recorder
from kvsim.sim.run.drive import EngineRun
from kvsim.sim.run.options import RunOptions
from kvsim.sim.run.run import Run
from kvsim.sim.scenario.scenario import Scenario
from kvsim.sim.scenario.setup import EngineSetup
from kvsim.traces import Trace, read_trace

if TYPE_CHECKING:
    from collections.abc import Callable

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "vllm"
GROUPS = GOLDEN.with_name("vllm-groups")
MS = 10**9  # picoseconds


@pytest.fixture
def pool() -> PoolShape:
    """Ten usable blocks of 16 tokens and 1,600 bytes, and 100 bytes left over."""
    return PoolShape(num_blocks=11, block_size=16, block_bytes=1600, remainder_bytes=100)


@pytest.fixture
def three_requests() -> tuple[Trace, Recorder]:
    """Requests at 0, 10, 20 ms: one of 1 token, one of 3 with a stall, one refused.

    Request 0 waits 5 ms, then 100 ms of prefill: TTFT = E2E = 105 ms.
    Request 1 starts at 110 ms, first token at 210 ms, then gaps of 40 and 60 ms: ends at 310 ms.
    """
    trace = Trace(
        name="tiny",
        arrival_ns=np.array([0, 10, 20], dtype=np.int64) * 10**6,
        prompt_tokens=np.array([100, 60, 9000], dtype=np.int64),
        output_tokens=np.array([1, 3, 5], dtype=np.int64),
        sha256="0" * 64,
    )
    recorder = Recorder(3)
    # memory in slots of 160 usable: 100 ms alone, then 210 ms in which requests wait
    recorder.interval(0, 100 * MS, 64, 16, 10, 16, 1)
    recorder.set_waiting(100 * MS, True)
    recorder.queue(100 * MS, 2, "blocks")
    recorder.interval(100 * MS, 310 * MS, 32, 0, 20, 0, 2)
    recorder.queue(310 * MS, 0)
    recorder.set_waiting(310 * MS, False)
    recorder.never(100 * MS, 310 * MS, 5)
    recorder.admitted(0, 5 * MS, 32, resumed=False)
    recorder.first_token_ps[0] = 105 * MS
    recorder.finished(0, 105 * MS, 1)
    recorder.admitted(1, 110 * MS, 16, resumed=False)
    recorder.first_token_ps[1] = 210 * MS
    recorder.gaps.add(250 * MS, 40 * MS, 1)
    recorder.preempted(1, 210 * MS, 62)
    recorder.admitted(1, 260 * MS, 48, resumed=True)
    recorder.stall(1, 310 * MS, 60 * MS)
    recorder.finished(1, 310 * MS, 3)
    recorder.refused(2, "needs 9 blocks, the pool has 7")
    recorder.num_steps_outside = 1
    for number in range(5):
        recorder.step(60 * MS * number, StepTime(60 * MS, True, 30 * MS, 0, 10 * MS))
    recorder.idle(300 * MS, 310 * MS)
    recorder.num_evicted_blocks = 7
    return trace, recorder


@pytest.fixture
def make_run(pool: PoolShape) -> Callable[..., Run]:
    """Build a run around a trace and a recorder."""

    def make(trace: Trace, recorder: Recorder, *, partial: bool = False) -> Run:
        setup = EngineSetup(SchedulerConfig(), LinearCost(1), pool, (), ("a <note>",))
        engine = EngineRun(recorder, "stepper", "asked for", partial, 0)
        return Run(trace, Scenario(), setup, engine, RunOptions())

    return make


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], tuple[GoldenLog, Trace]]:
    """Read a made-up scenario by name: its log and its trace."""
    traces = cache(read_trace)

    @lru_cache(maxsize=2)  # a log is large; tests that share one stand together
    def read(name: str) -> tuple[GoldenLog, Trace]:
        places = (folder / f"{name}.jsonl.gz" for folder in (GOLDEN, GROUPS))
        log = read_log(next(path for path in places if path.exists()))
        return log, traces(find_trace(log))

    return read


@pytest.fixture(scope="session")
def recorded_cache() -> Callable[[str], tuple[CacheLog, Trace]]:
    """Read a recorded cache log by name, and its trace."""
    traces = cache(read_trace)

    @cache
    def read(name: str) -> tuple[CacheLog, Trace]:
        path = GOLDEN.with_name("sglang") / f"{name}.jsonl.gz"
        log = cache_log(path, read_records(path))
        return log, traces(find_trace(log))

    return read


@pytest.fixture
def change_source(monkeypatch: pytest.MonkeyPatch) -> Callable[[type, str, str, str], None]:
    """Replace ``old``, which must occur once, in the source of a method, for one test."""

    def change(owner: type, method: str, old: str, new: str) -> None:
        function: Any = inspect.unwrap(inspect.getattr_static(owner, method))
        before = getattr(function, "source", None) or inspect.getsource(function)
        source = textwrap.dedent(before)
        assert source.count(old) == 1, f"{method} has no longer just one {old!r}"
        source = source.replace(old, new)
        code = "from __future__ import annotations\n" + source
        scope: dict[str, Any] = {}
        exec(compile(code, f"<{method}, changed>", "exec"), function.__globals__, scope)
        scope[method].source = source
        monkeypatch.setattr(owner, method, scope[method])

    return change
