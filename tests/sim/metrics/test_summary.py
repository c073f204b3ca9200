"""Summaries of hand-made recorders against answers worked out by hand."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.sim.documents.summary import EngineUsed, ScenarioNames
from kvsim.sim.metrics.summary import summarise_run, sustained_rate
from kvsim.sim.metrics.tables import series_table
from kvsim.sim.recording.recorder import Recorder
from kvsim.sim.recording.step_parts import PARTS
from kvsim.sim.recording.waiting_clock import CAUSES
from kvsim.sim.scenario.tables import Slo
from kvsim.traces.trace.trace import Trace

if TYPE_CHECKING:
    from kvsim.sim.documents.summary import Summary
    from kvsim.sim.pool.shape import PoolShape

MS = 10**9
S = 10**12

Run3 = tuple[Trace, Recorder]


def summary_of(run: Run3, pool: PoolShape, slo: Slo | None = None) -> Summary:
    return summarise_run(
        *run,
        pool,
        slo or Slo(),
        scenario=ScenarioNames(preset="", verified=None, model="tiny", hardware="card"),
        engine=EngineUsed(name="stepper", reason="by hand", audited=0),
        cost_source="linear",
    )


def test_requests_and_window(three_requests: Run3, pool: PoolShape) -> None:
    summary = summary_of(three_requests, pool)
    assert summary.requests.to_dict() == {
        "total": 3,
        "finished": 2,
        "refused": 1,
        "unfinished": 0,
        "aborted": 0,
        "not_sent": 0,
        "refused_ids": ["r0002"],
        "refused_reasons": {"r0002": "needs 9 blocks, the pool has 7"},
    }
    assert summary.window.to_dict() == {
        "seconds": 0.31,
        "first_arrival_s": 0.0,
        "last_arrival_s": 0.02,
        "end_s": 0.31,
        "peak_running": 2,
    }


def test_latencies(three_requests: Run3, pool: PoolShape) -> None:
    latency = summary_of(three_requests, pool).latency
    assert latency.queue_s.mean == pytest.approx((0.005 + 0.1) / 2)
    assert latency.ttft_s.mean == pytest.approx((0.105 + 0.2) / 2)
    assert latency.ttft_s.p50 == pytest.approx(0.1525)
    assert latency.ttft_s.max == pytest.approx(0.2)
    assert latency.tpot_s.num == 1, "undefined for one token and left out"
    assert latency.tpot_s.mean == pytest.approx(0.05)
    assert latency.e2e_s.mean == pytest.approx((0.105 + 0.3) / 2)
    assert latency.normalised_s_per_token.mean == pytest.approx((0.105 + 0.1) / 2)
    assert latency.itl_s.num == 2
    assert latency.itl_s.mean == pytest.approx(0.05)
    assert latency.itl_s.p50 == pytest.approx(0.04, rel=0.006)
    assert latency.itl_s.max == pytest.approx(0.06)


def test_throughput_counts_finished_requests(three_requests: Run3, pool: PoolShape) -> None:
    rates = summary_of(three_requests, pool).throughput
    assert rates.requests_per_s == pytest.approx(2 / 0.31)
    assert rates.output_tokens_per_s == pytest.approx(4 / 0.31)
    assert rates.total_tokens_per_s == pytest.approx(164 / 0.31)


@pytest.mark.parametrize(
    ("slo", "num_good"),
    [
        (Slo(ttft_ps=150 * MS), 1),
        (Slo(ttft_ps=200 * MS), 2),
        (Slo(tpot_ps=50 * MS), 2),  # a limit is kept when it is met exactly
        (Slo(tpot_ps=50 * MS - 1), 1),  # one token: no TPOT, nothing to break
        (Slo(e2e_ps=105 * MS), 1),
        (Slo(ttft_ps=200 * MS, tpot_ps=49 * MS, e2e_ps=S), 1),
    ],
)
def test_goodput(three_requests: Run3, pool: PoolShape, slo: Slo, num_good: int) -> None:
    goodput = summary_of(three_requests, pool, slo).goodput
    assert goodput is not None
    assert goodput.requests == num_good
    assert goodput.requests_per_s == pytest.approx(num_good / 0.31)
    assert goodput.percent_of_finished == pytest.approx(50 * num_good)


def test_no_slo_no_goodput(three_requests: Run3, pool: PoolShape) -> None:
    assert summary_of(three_requests, pool).goodput is None


def test_host_memory_is_an_account_of_its_own(three_requests: Run3, pool: PoolShape) -> None:
    trace, recorder = three_requests
    before = summary_of(three_requests, pool).memory
    recorder.swapped_out(1, 110 * MS, 5)
    recorder.host(110 * MS, 265 * MS, 5)
    recorder.swapped_in(1, 260 * MS, 4)
    recorder.copying(110 * MS, 117 * MS)
    recorder.peak_host_blocks, recorder.num_host_full = 5, 2
    recorder.judged(swapped=True, right=True)
    recorder.judged(swapped=True, right=False)
    recorder.judged(swapped=False, right=True)
    summary = summary_of((trace, recorder), pool)
    assert summary.host.to_dict() == {
        "swapped_out_bytes": 8000,
        "swapped_in_bytes": 6400,
        "copying_s": 0.007,
        "mean_bytes": pytest.approx(5 * 155 / 310 * 1600),
        "peak_bytes": 8000,
        "times_full": 2,
    }
    assert summary.preemptions.by_mode.to_dict() == {"recompute": 1, "swap": 1}
    assert summary.preemptions.lost_tokens == 62
    assert summary.preemptions.auto is not None
    assert summary.preemptions.auto.to_dict() == {
        "judged": 3,
        "right": 2,
        "percent_right": pytest.approx(200 / 3),
        "by_choice": {
            "swap": {"judged": 2, "right": 1},
            "recompute": {"judged": 1, "right": 1},
        },
    }
    assert summary.memory == before
    series = series_table(recorder, pool)
    held = np.asarray(series["host_bytes"]) * np.asarray(series["seconds"])
    assert held.sum() == pytest.approx(5 * 0.155 * 1600)
    assert np.asarray(series["copying_share"]) @ series["seconds"] == pytest.approx(0.007)
    for column, num_bytes, at_s in (("out", 8000, 0.110), ("in", 6400, 0.260)):
        moved = np.asarray(series[f"swapped_{column}_bytes"])
        (window,) = np.flatnonzero(moved)
        assert moved[window] == num_bytes
        assert 0 <= at_s - series["start_s"][window] < series["seconds"][window]


def test_series_tell_when_and_why_requests_waited(three_requests: Run3, pool: PoolShape) -> None:
    series = series_table(three_requests[1], pool)
    waited = {cause: series[f"waiting_{cause.replace(' ', '_')}"] for cause in CAUSES}
    assert np.asarray(sum(waited.values())) == pytest.approx(series["waiting"])
    seconds = np.asarray(series["seconds"])
    assert waited["blocks"] @ seconds == pytest.approx(0.42)
    first = int(0.1 // series["start_s"][1])  # the window in which the wait begins
    assert not waited["blocks"][:first].any()
    assert waited["blocks"][first + 1 :] == pytest.approx(2)
    assert series["preemptions"].sum() == 1
    assert series["preemptions"][int(0.21 // series["start_s"][1])] == 1


def test_series_tell_what_steps_spend_their_time_on(three_requests: Run3, pool: PoolShape) -> None:
    series = series_table(three_requests[1], pool)
    parts = {name: np.asarray(series[f"{name}_s"]) for name in PARTS}
    assert {name: pytest.approx(values.sum()) for name, values in parts.items()} == {
        "weights": 0.15,
        "kv": 0.10,
        "prefill": 0,
        "overhead": 0.05,
        "idle": 0.01,
    }
    assert np.sum(list(parts.values()), axis=0) == pytest.approx(np.asarray(series["seconds"]))
    assert series["steps"].sum() == 5


def test_events(three_requests: Run3, pool: PoolShape) -> None:
    summary = summary_of(three_requests, pool)
    assert summary.cache.to_dict() == {
        "prompt_tokens": 160,
        "hit_tokens": 48,
        "hit_percent": 30.0,
        "evicted_blocks": 7,
    }
    assert summary.preemptions.to_dict() == {
        "count": 1,
        "by_mode": {"recompute": 1, "swap": 0},
        "auto": None,
        "requests": 1,
        "lost_tokens": 62,
        "resume_hit_tokens": 48,
        "recomputed_tokens": 14,
    }
    assert summary.stalls.to_dict() == {"count": 1, "seconds": 0.06, "longest_s": 0.06}
    assert summary.waited_s.blocks == pytest.approx(0.42)
    assert summary.cost.to_dict() == {
        "source": "linear",
        "steps": 5,
        "steps_outside": 1,
        "percent_outside": 20.0,
    }


def test_an_empty_run_has_no_numbers_but_no_nan(pool: PoolShape) -> None:
    empty = np.empty(0, dtype=np.int64)
    summary = summary_of((Trace("none", empty, empty, empty), Recorder(0)), pool)
    json.dumps(summary.to_dict(), allow_nan=False)
    assert summary.latency.ttft_s.mean is None
    assert summary.throughput.requests_per_s is None


# ---- verdict and phases: queues driven by hand ----------------------------------------------


def queue_run(waiting_at: list[int], *, drain_s: int, seats: int = 4) -> Run3:
    """One arrival a second and a queue that changes each second; all requests finish."""
    num = len(waiting_at)
    trace = Trace(
        "queue",
        np.arange(num, dtype=np.int64) * 10**9,
        np.full(num, 8, dtype=np.int64),
        np.full(num, 2, dtype=np.int64),
    )
    recorder = Recorder(num)
    for second, waiting in enumerate([*waiting_at, *[0] * drain_s]):
        recorder.queue(second * S, waiting, "max_num_seqs")
        recorder.interval(second * S, (second + 1) * S, 0, 0, 0, 0, seats)
    recorder.queue((num + drain_s) * S, 0)
    for index in range(num):
        recorder.admitted(index, index * S, 0, resumed=False)
        recorder.first_token_ps[index] = index * S + MS
        recorder.finished(index, index * S + 2 * MS, 2)
    return trace, recorder


def test_a_level_queue_is_stable(pool: PoolShape) -> None:
    verdict = summary_of(queue_run([3, 5, 4, 4] * 300, drain_s=5), pool).verdict
    assert verdict.kind == "stable"
    assert verdict.queue_slope_per_s is not None
    assert abs(verdict.queue_slope_per_s) < 1e-3
    assert verdict.trusted_percentile == 99


def test_a_growing_queue_is_overloaded_and_names_what_binds(pool: PoolShape) -> None:
    growing = [second // 2 for second in range(1200)]
    verdict = summary_of(queue_run(growing, drain_s=600), pool).verdict
    assert verdict.kind == "overloaded"
    assert verdict.binds == "max_num_seqs"
    assert verdict.queue_slope_per_s == pytest.approx(0.5, rel=0.01)
    assert "0.5 requests a second" in verdict.text


def test_a_burst_with_a_long_backlog_is_overloaded(pool: PoolShape) -> None:
    trace, recorder = queue_run([50] * 1200, drain_s=0)
    at_once = Trace(
        "burst", np.zeros(1200, dtype=np.int64), trace.prompt_tokens, trace.output_tokens
    )
    verdict = summary_of((at_once, recorder), pool).verdict
    assert verdict.kind == "overloaded"
    assert "after arrivals of 0 s the backlog takes 1,200 s to start" in verdict.text


def test_few_requests_are_too_short_for_p99(pool: PoolShape) -> None:
    verdict = summary_of(queue_run([0] * 999, drain_s=1), pool).verdict
    assert (verdict.kind, verdict.trusted_percentile) == ("too short", 90)
    verdict = summary_of(queue_run([0] * 19, drain_s=1), pool).verdict
    assert (verdict.kind, verdict.trusted_percentile) == ("too short", None)


def test_ramp_up_steady_and_drain_add_up(pool: PoolShape) -> None:
    trace, recorder = queue_run([0] * 100, drain_s=20)
    summary = summary_of((trace, recorder), pool)
    phases = (summary.phases.ramp_up, summary.phases.steady, summary.phases.drain)
    seconds = [phase.seconds for phase in phases]
    assert math.isclose(sum(seconds), summary.window.seconds)
    assert seconds[0] == 0, "full from the first window on"
    assert seconds[2] == pytest.approx(21)
    assert sum(phase.requests_finished for phase in phases) == 100
    assert summary.phases.steady.mean_running == pytest.approx(4)


def test_ramp_up_ends_when_running_reaches_its_later_mean(pool: PoolShape) -> None:
    trace, _ = queue_run([0] * 100, drain_s=0)
    recorder = Recorder(100)
    for second in range(100):
        recorder.interval(second * S, (second + 1) * S, 0, 0, 0, 0, min(second, 20))
    ramp_up = summary_of((trace, recorder), pool).phases.ramp_up
    assert ramp_up.seconds == pytest.approx(18, abs=0.3)


def test_the_sustained_rate_leaves_out_both_tenths() -> None:
    """20 finish: the first two late, then one a second, the last two long after."""
    finish_s = [0, 50, *range(100, 116), 500, 900]
    ends = np.array(finish_s, dtype=np.int64) * 10**12
    rng = np.random.default_rng(3)
    assert sustained_rate(rng.permutation(ends)) == pytest.approx(1.0)
    assert sustained_rate(ends[:9]) is None
    assert sustained_rate(np.zeros(20, np.int64)) is None
