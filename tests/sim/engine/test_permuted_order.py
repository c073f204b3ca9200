"""What comes of a run does not depend on the order in which the program learns of things.

Times are few, so that nearly everything happens together with something else: arrivals, ends of
steps, think times, the patience of clients. A seed names a scenario.
"""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import simpy
from simpy.events import NORMAL, EventPriority

from kvsim.sim.conformance.random_scenario import make_config, make_trace
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.run.run import simulate
from kvsim.traces import read_trace
from kvsim.traces.adjust.closed_loop import FollowOns
from kvsim.traces.trace.trace import MorePredecessors, Trace
from tests.engine_config import engine_config
from tests.engine_run import run

if TYPE_CHECKING:
    from pathlib import Path

    from simpy.events import Event

    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.recording.recorder import Recorder


class Tied(NamedTuple):
    """Inputs of one run in which much happens at once."""

    trace: Trace
    config: SchedulerConfig
    cost: LinearCost
    loop: FollowOns
    num_users: int | None

    def run(self, *, step: bool, open_loop: bool = False) -> dict[str, Any]:
        """All that a run leaves, in plain values."""
        trace, config, cost, loop, users = self
        recorder = run(
            trace,
            config,
            cost,
            max_tokens=trace.output_tokens,
            follow_ons=None if open_loop else loop,
            num_users=None if open_loop else users,
            step=step,
        ).recorder
        return left_behind(recorder)


def left_behind(recorder: Recorder) -> dict[str, Any]:
    """All attributes of a recorder, the histogram of gaps spelt out."""
    left = dict(recorder.__getstate__())
    gaps = left.pop("gaps")
    series = gaps.over_time(recorder.width_ps, len(recorder.windows["window"]))
    left["gaps"] = [gaps.counts, gaps.sum_ps, gaps.max_ps, series.counts.tolist()]
    return left


def tied(seed: int) -> Tied:
    """Few instants: arrivals and delays of up to 8 ns, steps of 0, 1 or 2 ns."""
    rnd = Random(seed)
    config = make_config(rnd)
    queue = rnd.choice(["fcfs"] * 3 + ["priority", "sjf", "longest-prefix-match", "fair"])
    predictor = "max_tokens" if queue == "sjf" else "none"
    config = engine_config(config, queue__policy=queue, predictor__kind=predictor)
    trace = make_trace(rnd, config)
    num = len(trace)
    arrivals = sorted(rnd.randint(0, 8) for _ in range(num))
    patience = [rnd.choice([-1, -1, 0, 1, 3, 6, 20]) for _ in range(num)]
    trace = replace(
        trace,
        arrival_ns=np.array(arrivals, dtype=np.int64),
        priority=np.array([rnd.randrange(3) for _ in range(num)], dtype=np.int64),
        timeout_ns=np.array(patience, dtype=np.int64) if rnd.random() < 0.5 else None,
    )
    parent = [rnd.choice([-1, rnd.randrange(i)]) if i else -1 for i in range(num)]
    others = [[j for j in range(i) if rnd.random() < 0.1] for i in range(num)]
    loop = FollowOns(
        np.array(parent, dtype=np.int64),
        np.array([rnd.choice([0, 0, 1, 2, 3, 8]) for _ in range(num)], dtype=np.int64),
        also_after=MorePredecessors(
            np.cumsum([0, *map(len, others)], dtype=np.int64),
            np.array([j for row in others for j in row], dtype=np.int64),
        ),
    )
    return Tied(trace, config, LinearCost(rnd.choice([0, 1000, 2000])), loop, rnd.choice([None, 3]))


def shuffle_events(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Let events of one instant and one priority happen in any order, not in that of insertion."""
    rnd = Random(seed)

    class Shuffled(simpy.Environment):
        def schedule(
            self, event: Event, priority: EventPriority = NORMAL, delay: float = 0
        ) -> None:
            shuffled: Any = priority + rnd.random() / 2
            super().schedule(event, shuffled, delay)

    monkeypatch.setattr(simpy, "Environment", Shuffled)


@pytest.mark.parametrize("seed", range(0, 80, 8))
@pytest.mark.parametrize("step", [False, True])
def test_who_speaks_first_at_an_instant_changes_nothing(
    seed: int, step: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in range(seed, seed + 8):
        with monkeypatch.context() as patch:
            expected = tied(one).run(step=step)
            shuffle_events(patch, one)
            assert tied(one).run(step=step) == expected, f"tied({one})"


@pytest.mark.parametrize("seed", range(0, 60, 20))
def test_both_drivers_have_one_order(seed: int) -> None:
    """Requests at their own times, whose clients never give up: sessions or not is the same."""
    for one in range(seed, seed + 20):
        scenario = tied(one)
        never = np.full(len(scenario.trace), -1, dtype=np.int64)
        alone = scenario._replace(trace=replace(scenario.trace, timeout_ns=None))
        patient = scenario._replace(trace=replace(scenario.trace, timeout_ns=never))
        expected = alone.run(step=True, open_loop=True)
        assert patient.run(step=True, open_loop=True) == expected, f"tied({one})"


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def write_rows(path: Path, rows: list[dict[str, object]]) -> Path:
    head = {"kvsim_trace": {"version": 1, "name": "tied", "id_block_tokens": 16}}
    head["kvsim_trace"] |= {"ids_cover_output": True, "id_scope": "global"}
    path.write_text("".join(json.dumps(row) + "\n" for row in [head, *rows]), "utf-8")
    return path


def test_not_a_byte_of_a_run_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users, think times and patience in whole seconds, in a scenario as people have it."""
    scenario = tied(9).trace
    trace = replace(scenario, arrival_ns=scenario.arrival_ns * 10**9, prefix=None)
    trace.session = [f"s{index % 5}" for index in range(len(trace))]
    trace.timeout_ns = None
    for name, seed in (("plain", None), ("shuffled", 1)):
        with monkeypatch.context() as patch:
            if seed is not None:
                shuffle_events(patch, seed)
            made = simulate(trace, num_users=3, think_time="1s", timeout="2s")
            made.save(tmp_path / name)
    expected = files_of(tmp_path / "plain")
    assert files_of(tmp_path / "shuffled") == expected


@pytest.mark.parametrize("seed", range(4))
def test_rows_of_a_file_may_stand_in_any_order_but_at_one_time(seed: int, tmp_path: Path) -> None:
    rnd = Random(seed)
    rows: list[dict[str, object]] = []
    for index in range(40):
        prompt, output = rnd.randint(1, 90), rnd.randint(1, 20)
        ids = [rnd.randrange(3) for _ in range(-(-(prompt + output) // 16))]
        row = {"id": f"q{index}", "arrival_ns": rnd.randrange(6) if index else 0}
        row |= {"prompt_tokens": prompt, "output_tokens": output, "prefix_ids": ids}
        rows.append(row)
    times = list(range(6))
    rnd.shuffle(times)
    permuted = [row for time in times for row in rows if row["arrival_ns"] == time]
    assert permuted != rows
    made = []
    for name, some in (("file", rows), ("permuted", permuted)):
        trace = read_trace(write_rows(tmp_path / f"{name}.jsonl", some), sort=True)
        made.append(simulate(replace(trace, sha256="", receipt=None), audit=True))
    one, other = made
    assert one.summary == other.summary
    assert one.requests.equals(other.requests)
    assert one.series.equals(other.series)
