"""Measured runs as load tools write them: what a client saw, without the engine's options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.calibrate.engine_logs.measured_run import MeasuredRun

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_CLIENT_CLOCK: Final = "client: request sent to first token received"


def vllm_bench_run(path: Path, result: dict[str, Any]) -> MeasuredRun:
    """TTFT and gaps of each request as the client saw them; failed requests are left out."""
    if "start_times" not in result:
        msg = f"{path}: no start_times: it says not when requests were sent (vLLM from 0.11 does)"
        raise ValueError(msg)
    good = [
        row
        for row, (error, length) in enumerate(
            zip(result["errors"], result["output_lens"], strict=True)
        )
        if not error and length
    ]
    order = sorted(good, key=lambda row: result["start_times"][row])
    return _client_run(
        path,
        "vllm bench serve",
        [f"r{row:04d}" for row in order],
        [result["start_times"][row] for row in order],
        [result["input_lens"][row] for row in order],
        [result["output_lens"][row] for row in order],
        [[result["ttfts"][row], *result["itls"][row]] for row in order],
    )


def aiperf_run(path: Path, records: list[dict[str, Any]]) -> MeasuredRun:
    """TTFT and gaps between chunks of each request as the client saw them."""
    good = [record for record in records if not record.get("error")]
    good.sort(key=lambda record: record["metadata"]["request_start_ns"])
    gaps = []
    for record in good:
        metrics = record["metrics"]
        ttft = metrics.get("time_to_first_token") or metrics["ttft"]
        chunks = metrics.get("inter_chunk_latency", {"value": []})["value"]
        gaps.append([value / 1e3 for value in (ttft["value"], *chunks)])
    return _client_run(
        path,
        "AIPerf",
        [record["metadata"]["x_request_id"] for record in good],
        [record["metadata"]["request_start_ns"] / 1e9 for record in good],
        [record["metrics"]["input_sequence_length"]["value"] for record in good],
        [record["metrics"]["output_sequence_length"]["value"] for record in good],
        gaps,
    )


def _client_run(
    path: Path,
    source: str,
    ids: Sequence[str],
    start_s: Sequence[float],
    prompts: Sequence[int],
    outputs: Sequence[int],
    gaps_s: Sequence[Sequence[float]],
) -> MeasuredRun:
    """Build a run from what a client saw; a chunk of several tokens keeps its one time."""
    if not ids:
        msg = f"{path}: no request of this run succeeded"
        raise ValueError(msg)
    arrival = np.array(start_s) - min(start_s)
    times = [at + np.cumsum(row) for at, row in zip(arrival, gaps_s, strict=True)]
    whole = all(len(row) == output for row, output in zip(times, outputs, strict=True))
    return MeasuredRun(
        name=path.name.partition(".")[0],
        source=source,
        engine={},
        ttft_boundary=_CLIENT_CLOCK,
        ids=tuple(ids),
        arrival_s=arrival,
        prompt_tokens=np.array(prompts),
        output_tokens=np.array(outputs),
        first_token_s=np.array([row[0] for row in times]),
        last_token_s=np.array([row[-1] for row in times]),
        token_times_s=tuple(times) if whole else None,
    )
