"""Read measured runs: step logs, recorded schedules, LLMServingSim's replays, load tools.

A reader is told by the content of its file; everything that a file does not hold stays away
(no engine options, no times of tokens), nothing is made up.
"""

from __future__ import annotations

import csv
import gzip
import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.calibrate.engine_logs.client_logs import aiperf_run, vllm_bench_run
from kvsim.calibrate.engine_logs.measured_run import LoadSeries, MeasuredRun
from kvsim.calibrate.engine_logs.step_sample import StepSample
from kvsim.sim.conformance.vllm_log import read_log
from kvsim.sim.hardware import load_hardware
from kvsim.sim.hardware.load import bundled_hardware
from kvsim.sim.models.load import bundled_models

if TYPE_CHECKING:
    from pathlib import Path

KINDS: Final = (
    "a step log (JSON with requests and steps), a recorded schedule, LLMServingSim's "
    "requests.jsonl or its folder, the JSON of vllm bench serve --save-detailed, AIPerf's "
    "profile_export.jsonl"
)
_ENGINE_CLOCK: Final = "engine: queued to first token, the engine's clock"


def read_measured(path: Path) -> MeasuredRun:
    """Read a measured run; one sentence (ValueError) where the file is none."""
    if path.is_dir():
        found = sorted(path.glob("*requests.jsonl*"))
        if len(found) != 1:
            msg = f"{path}: {len(found)} files *requests.jsonl* lie there; name one run"
            raise ValueError(msg)
        path = found[0]
    first, text = _opened(path)
    try:
        if {"steps", "requests", "args"} <= first.keys():
            return _step_log(path, first)
        if {"queued_ts", "first_token_ts", "last_token_ts"} <= first.keys():
            return _llmservingsim(path, [json.loads(line) for line in text.splitlines()])
        if {"ttfts", "itls", "input_lens"} <= first.keys():
            return vllm_bench_run(path, first)
        if first.get("type") == "header":
            return _schedule_log(path)
        if {"metadata", "metrics"} <= first.keys():
            return aiperf_run(path, [json.loads(line) for line in text.splitlines()])
    except (KeyError, TypeError, IndexError) as error:
        msg = f"{path}: the log lacks {error}, or it has another form than its first keys promise"
        raise ValueError(msg) from None
    msg = f"{path}: not a measured run; known: {KINDS}"
    raise ValueError(msg)


def _opened(path: Path) -> tuple[dict[str, Any], str]:
    """First JSON object of a file, packed or not, and its whole text."""
    raw = path.read_bytes()
    try:
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
        first, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (OSError, EOFError, ValueError) as error:
        msg = f"{path}: not a measured run ({error}); known: {KINDS}"
        raise ValueError(msg) from None
    if not isinstance(first, dict):
        msg = f"{path}: not a measured run (no JSON object); known: {KINDS}"
        raise ValueError(msg)
    return first, text


def _step_log(path: Path, log: dict[str, Any]) -> MeasuredRun:
    """Requests with the times of their tokens, and every step with its schedule."""
    requests, args = log["requests"], log["args"]
    start_s = min(request["arrival_s"] for request in requests)
    prompts = {request["id"]: request["prompt_len"] for request in requests}
    times = tuple(np.array(request["token_times_s"]) - start_s for request in requests)
    engine = {
        name: args[name]
        for name in ("block_size", "max_num_seqs", "max_num_batched_tokens", "max_model_len")
    }
    engine["num_gpu_blocks"] = log["num_gpu_blocks"]
    engine["enable_prefix_caching"] = not args["no_prefix_caching"]
    engine["async_scheduling"] = False
    return MeasuredRun(
        name=path.name.partition(".")[0],
        source=f"vLLM {log['versions']['vllm']}",
        engine=engine,
        ttft_boundary=_ENGINE_CLOCK,
        ids=tuple(request["id"] for request in requests),
        arrival_s=np.array([request["arrival_s"] for request in requests]) - start_s,
        prompt_tokens=np.array([request["prompt_len"] for request in requests]),
        output_tokens=np.array([request["output_len"] for request in requests]),
        first_token_s=np.array([row[0] for row in times]),
        last_token_s=np.array([row[-1] for row in times]),
        token_times_s=times,
        steps=tuple(_logged_step(step, prompts) for step in log["steps"]),
        shared_prefix_tokens=args["shared"],
        counts={
            "preemptions": log["summary"]["preemptions"],
            "prompt tokens from the cache": log["summary"]["cached_tokens"],
        },
    )


def _logged_step(step: dict[str, Any], prompts: dict[str, int]) -> StepSample:
    """One step; CPU time in place of wall time where the log has both."""
    prefills, contexts = [], []
    for name, tokens, computed in step["sched"]:
        if tokens == 1 and computed >= prompts[name]:
            contexts.append(computed + 1)
        else:
            prefills.append((tokens, computed))
    duration_ms = step.get("cpu_ms", step["dur_ms"])
    return StepSample(
        prefills=tuple(prefills),
        num_decodes=len(contexts),
        context=sum(contexts),
        duration_s=duration_ms / 1e3,
        host_s=step["schedule_us"] / 1e6 if "schedule_us" in step else None,
        wall_s=step["dur_ms"] / 1e3,
        schedule=tuple((name, tokens, computed) for name, tokens, computed in step["sched"]),
    )


def _schedule_log(path: Path) -> MeasuredRun:
    """Build a run from a recorded schedule (``docs/conformance.md``); its answers that finished."""
    log = read_log(path)
    done = [request for request in log.requests if request["status"] == "ok"]
    if not done:
        msg = f"{path}: no request of this recorded schedule finished"
        raise ValueError(msg)
    done.sort(key=lambda request: request["arrival_ns"])

    def column(name: str) -> list[int]:
        return [request[name] for request in done]

    start_ns = min(column("arrival_ns"))
    return MeasuredRun(
        name=path.name.partition(".")[0],
        source="a recorded schedule",
        engine={},
        ttft_boundary=_ENGINE_CLOCK,
        ids=tuple(request["id"] for request in done),
        arrival_s=(np.array(column("arrival_ns")) - start_ns) / 1e9,
        prompt_tokens=np.array(column("prompt_len")),
        output_tokens=np.array(column("output_tokens")),
        first_token_s=(np.array(column("first_token_ns")) - start_ns) / 1e9,
        last_token_s=(np.array(column("finish_ns")) - start_ns) / 1e9,
        steps=tuple(_recorded_step(record) for record in log.records if record["type"] == "step"),
    )


def _recorded_step(record: dict[str, Any]) -> StepSample:
    sched = record["sched"]
    contexts = [past + 1 for _, _, past, kind in sched if kind == "D"]
    return StepSample(
        prefills=tuple((tokens, past) for _, tokens, past, kind in sched if kind != "D"),
        num_decodes=len(contexts),
        context=sum(contexts),
        duration_s=(record["t1"] - record["t0"]) / 1e9,
        schedule=tuple((name, tokens, past) for name, tokens, past, _ in sched),
    )


def _llmservingsim(path: Path, rows: list[dict[str, Any]]) -> MeasuredRun:
    """Queued, first and last token of each request; engine options in ``meta.json`` beside it."""
    meta_path = _beside(path, "meta.json")
    if meta_path is None:
        msg = f"{path}: its meta.json (engine options, number of blocks) is not beside it"
        raise ValueError(msg)
    meta, _ = _opened(meta_path)
    resolved = meta["resolved_config"]
    scheduler, cache = resolved["scheduler_config"], resolved["cache_config"]
    start_s = min(row["queued_ts"] for row in rows)
    rows.sort(key=lambda row: row["queued_ts"])
    return MeasuredRun(
        name=path.name.partition(".jsonl")[0],
        source=f"vLLM {meta['vllm_version']} on {meta['hardware']['device_name']}",
        engine={
            "block_size": cache["block_size"],
            "num_gpu_blocks": meta["kv_cache"]["num_gpu_blocks"],
            "max_num_seqs": scheduler["max_num_seqs"],
            "max_num_batched_tokens": scheduler["max_num_batched_tokens"],
            "max_model_len": resolved["model_config"]["max_model_len"],
            "enable_prefix_caching": cache["enable_prefix_caching"],
            "async_scheduling": scheduler["async_scheduling"],
        },
        ttft_boundary=_ENGINE_CLOCK,
        ids=tuple(row["request_id"] for row in rows),
        arrival_s=np.array([row["queued_ts"] for row in rows]) - start_s,
        prompt_tokens=np.array([row["input_toks"] for row in rows]),
        output_tokens=np.array([row["output_toks"] for row in rows]),
        first_token_s=np.array([row["first_token_ts"] for row in rows]) - start_s,
        last_token_s=np.array([row["last_token_ts"] for row in rows]) - start_s,
        series=_series(_beside(path, "timeseries.csv")),
        scenario=_known_names(meta["model"], meta["hardware"]["device_name"]),
    )


def _beside(path: Path, name: str) -> Path | None:
    """Find the file of the same run, packed or not."""
    stem = path.name.partition("requests.jsonl")[0]
    found = (path.parent / f"{stem}{name}{suffix}" for suffix in ("", ".gz"))
    return next((place for place in found if place.exists()), None)


def _series(path: Path | None) -> LoadSeries | None:
    if path is None:
        return None
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    rows = list(csv.DictReader(text.splitlines()))
    return LoadSeries(
        *(
            np.array([float(row[name]) for row in rows])
            for name in ("t", "running", "waiting", "kv_cache_pct")
        )
    )


def _known_names(model: str, device: str) -> dict[str, str]:
    """Scenario keys of a model and a device that kvsim has under their own names."""
    names = {}
    if (short := model.rpartition("/")[2].lower()) in bundled_models():
        names["model.name"] = short
    for card in bundled_hardware():
        if load_hardware(card).product == device:
            names["hardware.name"] = card
    return names
