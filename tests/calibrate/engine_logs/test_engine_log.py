"""Step costs found again in logs: of steps, of tokens, of requests."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from kvsim.calibrate.engine_logs.engine_log import fit_steps, loads_of
from kvsim.calibrate.engine_logs.run_logs import read_measured
from kvsim.calibrate.engine_logs.step_sample import (
    Loads,
    loads_of_requests,
    loads_of_steps,
    loads_of_tokens,
)
from kvsim.cli.main import main
from kvsim.sim.cost.profile_file import load_profile

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STEP_S: Final = 10e-3
TOKEN_S: Final = 30e-6
DECODE_S: Final = 200e-6
CONTEXT_S: Final = 200e-9


@dataclass
class Served:
    """One request: lengths, and when it was sent and its tokens came, seconds."""

    sent_s: float
    prompt: int
    output: int
    times_s: list[float] = field(default_factory=list)


def serve(num_requests: int = 120, seed: int = 1) -> list[Served]:
    """Serve requests without limits of seats or memory, each prompt in one step."""
    rng = np.random.default_rng(seed)
    sent = np.cumsum(rng.exponential(0.08, num_requests))
    requests = [
        Served(float(at), int(rng.integers(20, 1500)), int(rng.integers(4, 90))) for at in sent
    ]
    waiting, now_s = list(requests), 0.0
    running: list[Served] = []
    while waiting or running:
        if not running:
            now_s = max(now_s, waiting[0].sent_s)
        new = [request for request in waiting if request.sent_s <= now_s]
        waiting = waiting[len(new) :]
        context = sum(request.prompt + len(request.times_s) for request in running)
        tokens = sum(request.prompt for request in new) + len(running)
        now_s += STEP_S + TOKEN_S * tokens + DECODE_S * len(running) + CONTEXT_S * context
        running += new
        for request in running:
            request.times_s.append(now_s)
        running = [request for request in running if len(request.times_s) < request.output]
    return requests


def write_vllm_bench(path: Path, requests: list[Served]) -> None:
    """As ``vllm bench serve --save-detailed`` writes it, with one failed request."""
    failed = Served(requests[0].sent_s, 10, 0)
    rows = [failed, *requests]
    document = {
        "input_lens": [row.prompt for row in rows],
        "output_lens": [row.output for row in rows],
        "start_times": [1000.0 + row.sent_s for row in rows],
        "ttfts": [row.times_s[0] - row.sent_s if row.times_s else 0.0 for row in rows],
        "itls": [np.diff(row.times_s).tolist() for row in rows],
        "errors": ["refused", *[""] * len(requests)],
    }
    path.write_text(json.dumps(document))


def write_aiperf(path: Path, requests: list[Served]) -> None:
    """As AIPerf writes ``profile_export.jsonl``, with one failed request."""
    lines = [json.dumps({"metadata": {}, "metrics": {}, "error": {"code": 500}})]
    for number, row in enumerate(requests):
        metrics = {
            "input_sequence_length": {"value": row.prompt, "unit": "tokens"},
            "output_sequence_length": {"value": row.output, "unit": "tokens"},
            "time_to_first_token": {"value": 1e3 * (row.times_s[0] - row.sent_s), "unit": "ms"},
            "inter_chunk_latency": {"value": (1e3 * np.diff(row.times_s)).tolist(), "unit": "ms"},
        }
        start_ns = round(1e9 * (1000 + row.sent_s))
        metadata = {"x_request_id": f"q{number}", "request_start_ns": start_ns}
        lines.append(json.dumps({"metadata": metadata, "metrics": metrics, "error": None}))
    path.write_text("\n".join(lines) + "\n")


KNOWN = (STEP_S, TOKEN_S, DECODE_S, CONTEXT_S)


@pytest.mark.parametrize("write", [write_vllm_bench, write_aiperf])
def test_logs_of_tokens_give_the_step_costs_back(
    write: Callable[[Path, list[Served]], None], tmp_path: Path
) -> None:
    requests = serve()
    write(tmp_path / "log.json", requests)
    run = read_measured(tmp_path / "log.json")
    assert len(run) == len(requests)
    assert run.ttft_boundary.startswith("client")
    np.testing.assert_allclose(run.arrival_s, [r.sent_s - requests[0].sent_s for r in requests])
    np.testing.assert_allclose(run.ttft_s(), [r.times_s[0] - r.sent_s for r in requests], atol=1e-9)
    form = fit_steps(loads_of(run))
    np.testing.assert_allclose(form.coefficients[:4], KNOWN, rtol=0.03)
    assert form.host_s is None


def test_tokens_of_a_step_may_come_a_little_apart() -> None:
    rng, requests = np.random.default_rng(3), serve(400)
    prompts = np.array([request.prompt for request in requests])
    times = [np.array(r.times_s) + rng.uniform(0, 0.5e-3, len(r.times_s)) for r in requests]
    form = fit_steps(loads_of_tokens(prompts, times))
    np.testing.assert_allclose(form.coefficients[:4], KNOWN, rtol=0.05)


def test_first_and_last_tokens_alone_give_them_roughly() -> None:
    requests = serve(400)
    loads = loads_of_requests(
        np.array([r.prompt for r in requests]),
        np.array([r.output for r in requests]),
        np.array([r.times_s[0] for r in requests]),
        np.array([r.times_s[-1] for r in requests]),
    )
    first, second = loads.halves()
    assert np.median(fit_steps(first).errors(second)) < 0.05


def test_recorded_schedule_gives_its_own_cost_back(shared: Path) -> None:
    run = read_measured(shared / "golden" / "vllm" / "mixed.jsonl.gz")
    form = fit_steps(loads_of(run), run.steps)
    # the header's cost: 4 ms, 30 us a prefill token, 50 us a decode, 20 ns a context token
    np.testing.assert_allclose(form.coefficients[:4], [4e-3, 30e-6, 20e-6, 20e-9], rtol=0.03)
    assert form.measured.step_tokens is not None


@pytest.mark.parametrize(("name", "most"), [("opt125m", 0.08), ("qwen05b4l", 0.08)])
def test_half_of_a_real_run_predicts_the_other(name: str, most: float, shared: Path) -> None:
    run = read_measured(shared / "measured" / "vllm-cpu" / f"{name}.json.gz")
    half = len(run.steps) // 2
    form = fit_steps(loads_of_steps(run.steps[:half]), run.steps[:half])
    errors = form.errors(loads_of_steps(run.steps[half:]))
    assert np.median(errors) <= most
    assert form.host_s is not None
    assert 20e-6 < form.host_s[0] < 500e-6


def test_cost_of_a_form_is_the_form() -> None:
    columns = np.array([(1.0, n, b, t, a) for n, b, t, a in _LOADS])
    coefficients = np.array([8e-3, 30e-6, 100e-6, 50e-9, 2e-9])
    form = fit_steps(Loads(columns, columns @ coefficients))
    cost = form.cost("x")
    for tokens, decodes, context, _ in _LOADS[:6]:
        chunk = tokens - decodes
        prefills = [(chunk, 0)] if chunk else []
        expected = coefficients @ (1.0, tokens, decodes, context, chunk * chunk / 2)
        assert cost.step(prefills, decodes, context)[0] == pytest.approx(expected * 1e12, rel=1e-3)


_LOADS = [
    (chunk + batch, batch, batch * length, chunk * chunk / 2)
    for chunk in (0, 64, 512)
    for batch in (0, 1, 8, 32)
    for length in (100, 2000)
    if chunk or batch
]


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="3 steps are too few"):
        fit_steps(Loads(np.ones((3, 5)), np.ones(3)))


def test_command_writes_a_profile_that_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_vllm_bench(tmp_path / "bench.json", serve())
    out = tmp_path / "mine.json"
    names = ["--model", "llama-3.1-8b", "--hardware", "h100-sxm"]
    assert (
        main(["calibrate", "engine", str(tmp_path / "bench.json"), *names, "--out", str(out)]) == 0
    )
    text = capsys.readouterr().out
    assert "held out" in text
    assert "the log has no host times" in text
    profile = load_profile(out)
    assert 32 * profile.gemm.pieces[0][0] == pytest.approx(STEP_S * 1e6, rel=0.03)
    assert profile.hold_out["step"].median < 0.01
    trace = tmp_path / "t.csv"
    trace.write_text("arrival_ns,prompt_tokens,output_tokens\n0,100,5\n")
    options = ["--hardware", "h100-sxm", "--set", f'cost.source="{out}"']
    command = ["simulate", str(trace), *options, "--out", str(tmp_path / "run"), "--json"]
    assert main(command) == 0
    assert "mine profile" in capsys.readouterr().out


def test_command_asks_for_names_that_the_log_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_aiperf(tmp_path / "a.jsonl", serve(20))
    out = str(tmp_path / "p.json")
    assert main(["calibrate", "engine", str(tmp_path / "a.jsonl"), "--out", out]) == 2
    assert "give --model and --hardware" in capsys.readouterr().err
    out = str(tmp_path / "none" / "p.json")
    assert main(["calibrate", "engine", str(tmp_path / "a.jsonl"), "--out", out]) == 2
    assert "there is no folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a measured run"),
        ("[1]", "no JSON object"),
        ('{"a": 1}', "not a measured run; known:"),
        ('{"ttfts": [], "itls": [], "input_lens": []}', "no start_times"),
        ('{"metadata": {}, "metrics": {}, "error": 1}', "no request of this run succeeded"),
        ('{"queued_ts": 1, "first_token_ts": 2, "last_token_ts": 3}', "its meta.json"),
    ],
)
def test_files_that_are_no_log_are_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match=words):
        read_measured(tmp_path / "x.json")
