"""Measured runs replayed: a GPU with kernel costs, CPUs with the first half of their own steps."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from kvsim.calibrate.engine_logs.engine_log import fit_steps, loads_of
from kvsim.calibrate.engine_logs.run_logs import read_measured
from kvsim.calibrate.engine_logs.step_sample import loads_of_steps
from kvsim.calibrate.validate.measured_replay import (
    compare,
    engine_rules,
    engine_values,
    first_difference,
    replay,
    replay_schedule,
    replay_trace,
    with_overhead,
)
from kvsim.calibrate.validate.overhead import overhead_by_replay, overhead_of_steps
from kvsim.cli.main import main
from kvsim.sim.cost.profile_cost import ProfileCost, TokenCost
from kvsim.sim.documents.json_schema import json_schema
from kvsim.sim.documents.replay import ReplayDocument
from kvsim.sim.scenario.scenario import Scenario
from kvsim.sim.scenario.setup import set_up
from kvsim.traces import read_trace

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.calibrate.engine_logs.measured_run import MeasuredRun
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.traces.trace.trace import Trace

FOLDER = "profiles/llmservingsim"
LOG = f"{FOLDER}/bench__RTX4090__Llama-3.1-8B__vllm__requests.jsonl.gz"
IDS = "traces/llmservingsim/sharegpt-llama-3.1-8b-300-sps10.blocks16.jsonl.gz"


@pytest.fixture(scope="module")
def gpu_run(shared: Path) -> tuple[MeasuredRun, Trace, SchedulerConfig, ProfileCost]:
    run = read_measured(shared / LOG)
    trace = replay_trace(run, read_trace(shared / IDS))
    values = {**run.scenario, **engine_values(run), "cost.source": "rtx-4090"}
    setup = set_up(Scenario.load().with_values(values))
    assert isinstance(setup.cost, ProfileCost)
    return run, trace, setup.config, setup.cost


def test_gpu_run_from_kernel_tables_alone(
    gpu_run: tuple[MeasuredRun, Trace, SchedulerConfig, ProfileCost],
) -> None:
    run, trace, config, cost = gpu_run
    assert (config.num_gpu_blocks, config.async_scheduling) == (2588, True)
    ours = replay(trace, config, with_overhead(cost, 300.0))
    means = {row.metric: row.error for row in compare(run, ours) if row.statistic == "mean"}
    assert means["ITL"] is None
    for metric, most in (("TPOT", 0.05), ("E2E", 0.05), ("TTFT", 0.10)):
        error = means[metric]
        assert error is not None
        assert abs(error) <= most
    assert ours.num_finished == len(run) == 300
    assert ours.preemptions > 100
    assert run.series is not None
    assert ours.series.kv_percent.max() > 99
    assert abs(ours.series.kv_percent[:150].mean() - run.series.kv_percent[:150].mean()) < 5


def test_overhead_found_by_replay_gives_the_measured_tpot(
    gpu_run: tuple[MeasuredRun, Trace, SchedulerConfig, ProfileCost],
) -> None:
    run, trace, config, cost = gpu_run
    ours = replay(trace, config, with_overhead(cost, 450.0))
    same = replace(
        run,
        first_token_s=run.arrival_s + ours.ttft_s,
        last_token_s=run.arrival_s + ours.e2e_s,
    )
    assert overhead_by_replay(same, trace, config, cost) == pytest.approx(450, abs=20)
    with pytest.raises(ValueError, match="slower than measured without any overhead"):
        overhead_by_replay(same, trace, config, slowed(cost))


def slowed(cost: ProfileCost) -> ProfileCost:
    """``cost`` with layers that take 50 ms a step longer."""
    pieces = tuple((base_ps + 50 * 10**9, slope_ps) for base_ps, slope_ps in cost.gemm.pieces)
    return replace(cost, gemm=TokenCost(pieces))


def test_overhead_of_steps_is_what_the_device_leaves(
    gpu_run: tuple[MeasuredRun, Trace, SchedulerConfig, ProfileCost], shared: Path
) -> None:
    cost = gpu_run[3]
    steps = read_measured(shared / "golden" / "vllm" / "mixed.jsonl.gz").steps
    bare = with_overhead(cost, 0.0)
    timed = [
        replace(
            step,
            duration_s=bare.step(step.prefills, step.num_decodes, step.context)[0] / 1e12
            + 400e-6
            + 7e-6 * step.num_requests,
        )
        for step in steps
    ]
    assert overhead_of_steps(timed, cost) == pytest.approx((400, 7), rel=1e-3)


def test_burst_on_a_cpu_has_the_schedule_of_the_engine(shared: Path) -> None:
    run = read_measured(shared / "measured" / "vllm-cpu" / "tiny_burst_tight.json.gz")
    cost = fit_steps(loads_of(run), run.steps).cost("fitted")
    trace, config = replay_trace(run), engine_rules(run, Scenario.load())
    assert first_difference(run, replay_schedule(trace, config, cost)) is None
    ours = replay(trace, config, cost)
    assert run.counts == {"preemptions": 15, "prompt tokens from the cache": 2496}
    assert (ours.preemptions, ours.hit_tokens) == (15, 2496)
    assert len(run.steps) == 507
    other = replace(config, max_num_batched_tokens=64)
    assert first_difference(run, replay_schedule(trace, other, cost)) is not None


def test_cpu_run_from_half_of_its_steps(shared: Path) -> None:
    run = read_measured(shared / "measured" / "vllm-cpu" / "opt125m.json.gz")
    half = run.steps[: len(run.steps) // 2]
    cost = fit_steps(loads_of_steps(half), half).cost("fitted")
    ours = replay(replay_trace(run), engine_rules(run, Scenario.load()), cost)
    errors = [row.error for row in compare(run, ours)]
    assert all(error is not None and abs(error) < 0.05 for error in errors)


def test_replay_of_itself_has_no_error(shared: Path) -> None:
    run = read_measured(shared / "measured" / "vllm-cpu" / "opt125m.json.gz")
    cost = fit_steps(loads_of(run), run.steps).cost("fitted")
    ours = replay(replay_trace(run), engine_rules(run, Scenario.load()), cost)
    first, last = run.arrival_s + ours.ttft_s, run.arrival_s + ours.e2e_s
    same = replace(run, first_token_s=first, last_token_s=last, token_times_s=None)
    for row in compare(same, ours):
        assert row.metric == "ITL" or row.error == pytest.approx(0, abs=1e-6)


def test_trace_of_other_requests_is_refused(shared: Path) -> None:
    run = read_measured(shared / LOG)
    other = replay_trace(read_measured(shared / "measured" / "vllm-cpu" / "opt125m.json.gz"))
    with pytest.raises(ValueError, match="is not of the run"):
        replay_trace(run, other)


def test_prompts_share_what_the_log_says(shared: Path) -> None:
    run = read_measured(shared / "measured" / "vllm-cpu" / "tiny_burst_tight.json.gz")
    prefix = replay_trace(run).prefix
    assert prefix is not None
    start, middle, end = prefix.offsets[:3]
    first, second = prefix.ids[start:middle], prefix.ids[middle:end]
    assert np.array_equal(first[:64], second[:64])
    assert not set(first[64:].tolist()) & set(second[64:].tolist())


def test_command_prints_both_and_writes_a_page(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "run.html"
    command = ["validate", "run", str(shared / LOG), "--trace", str(shared / IDS)]
    command += ["--html", str(page)]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "rtx-4090 profile" in text
    assert "2,588 blocks of 16 tokens, max_num_seqs 256" in text
    assert "queued to first token" in text
    assert "0.3 ms a step (assumed)" in text
    assert "0 ms a step: TTFT" in text
    assert "0.6 ms a step: TTFT" in text
    assert "preemptions" in text
    assert "open it in a browser" in text
    html = page.read_text("utf-8")
    assert "measured" in html
    assert "kvsim" in html
    assert "<script src" not in html


def test_command_fits_the_first_half_of_a_step_log(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = str(shared / "measured" / "vllm-cpu" / "tiny_burst_tight.json.gz")
    assert main(["validate", "run", log]) == 0
    assert "identical, all 507 steps" in capsys.readouterr().out
    assert main(["validate", "run", log, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["preemptions"] == 15
    schema = json_schema(ReplayDocument, closed=True)
    assert [error.message for error in Draft202012Validator(schema).iter_errors(document)] == []
    assert main(["validate", "run", log, "--overhead", "1"]) == 2
    assert "--overhead goes with --profile" in capsys.readouterr().err


def test_a_log_without_load_has_the_replay_alone_on_its_page(tmp_path: Path) -> None:
    log, page = bench_log(tmp_path / "bench.json"), tmp_path / "bench.html"
    names = ["--hardware", "h100-sxm", "--model", "llama-3.1-8b"]
    assert main(["validate", "run", str(log), *names, "--html", str(page)]) == 0
    html = page.read_text("utf-8")
    assert html.count("the replay alone: the log has no load.") == 3
    assert "% of the pool at most." in html


def bench_log(path: Path) -> Path:
    """Two requests as ``vllm bench serve`` writes them."""
    log = {"input_lens": [100, 200], "output_lens": [3, 2], "start_times": [5.0, 5.5]}
    times = {"ttfts": [0.02, 0.03], "itls": [[0.01, 0.01], [0.01]], "errors": ["", ""]}
    path.write_text(json.dumps(log | times))
    return path


def test_command_takes_no_default_for_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["validate", "run", str(bench_log(tmp_path / "bench.json"))]
    assert main(command) == 2
    assert "give --model and --hardware" in capsys.readouterr().err
    assert main([*command, "--hardware", "h100-sxm"]) == 2
    assert "give --model" in capsys.readouterr().err
    assert main([*command, "--hardware", "h100-sxm", "--model", "llama-3.1-8b"]) == 0
    text = capsys.readouterr().out
    assert "client: request sent" in text
    assert "2 of 2 finished" in " ".join(text.split())


def test_command_refuses_overheads_and_costs_that_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["--hardware", "h100-sxm", "--model", "llama-3.1-8b"]
    command = ["validate", "run", str(bench_log(tmp_path / "bench.json")), *names]
    assert main([*command, "--overhead", "-1"]) == 2
    assert "--overhead -1.0 must be from 0 to 1000 ms" in capsys.readouterr().err
    linear = ["--set", "cost.source=linear", "--set", "cost.base=1ms"]
    assert main([*command, *linear]) == 2
    assert "validate run needs a profile" in capsys.readouterr().err
