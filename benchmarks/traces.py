"""Speed and memory of reading traces: one command, one table.

    python benchmarks/traces.py [--rows N] [--case NAME ...]

Makes each file (seeded), reads it in a process of its own and prints rows per CPU second
(``time.process_time`` around ``read_trace``) and the peak resident memory, which is split into
what the process had before and what one row of the file added.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

_CHUNK: Final = 100_000
GOALS: Final = {"csv": 300_000, "parquet": 1_000_000}
"""Rows per CPU second that are aimed for."""


def chunks(rows: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
    """Yield arrivals in us, prompts and outputs of a seeded Poisson stream."""
    rng = np.random.default_rng(0)
    last = 0
    for first in range(0, rows, _CHUNK):
        count = min(_CHUNK, rows - first)
        times = last + np.cumsum(rng.integers(1, 20_000, count))
        last = int(times[-1])
        yield times, rng.integers(1, 8000, count), rng.integers(1, 1000, count)


def write_vidur(path: Path, rows: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("arrived_at,num_prefill_tokens,num_decode_tokens\n")
        for columns in chunks(rows):
            lines = zip(*(column.tolist() for column in columns), strict=True)
            file.writelines(f"{t // 10**6}.{t % 10**6:06d},{p},{o}\n" for t, p, o in lines)


def write_azure(path: Path, rows: int) -> None:
    zero = np.datetime64("2024-05-10T00:00:00", "us")
    with path.open("w", encoding="utf-8") as file:
        file.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        for times, prompts, outputs in chunks(rows):
            stamps = np.char.replace((zero + times).astype(str), "T", " ").tolist()
            lines = zip(stamps, prompts.tolist(), outputs.tolist(), strict=True)
            file.writelines(f"{t}+00:00,{p},{o}\n" for t, p, o in lines)


def write_burstgpt(path: Path, rows: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n")
        for columns in chunks(rows):
            lines = zip(*(column.tolist() for column in columns), strict=True)
            file.writelines(f"{t // 10**6}.0,GPT-4,{p},{o},{p + o},API log\n" for t, p, o in lines)


def write_own_csv(path: Path, rows: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("arrival_ns,prompt_tokens,output_tokens\n")
        for columns in chunks(rows):
            lines = zip(*(column.tolist() for column in columns), strict=True)
            file.writelines(f"{t}000,{p},{o}\n" for t, p, o in lines)


def write_parquet(path: Path, rows: int) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    names = ("arrival_ns", "prompt_tokens", "output_tokens")
    schema = pa.schema([(name, pa.int64()) for name in names])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for times, prompts, outputs in chunks(rows):
            columns = dict(zip(names, (times * 1000, prompts, outputs), strict=True))
            writer.write_table(pa.table(columns, schema=schema))


CASES: Final[dict[str, tuple[str, Callable[[Path, int], None]]]] = {
    "vidur.csv": ("csv", write_vidur),
    "azure.csv": ("csv", write_azure),
    "burstgpt.csv": ("csv", write_burstgpt),
    "own.csv": ("csv", write_own_csv),
    "own.parquet": ("parquet", write_parquet),
}


def peak_kb() -> int:
    """Peak resident memory of this program; ``getrusage`` would count what its parent had."""
    status = Path("/proc/self/status")
    for line in status.read_text("utf-8").splitlines() if status.exists() else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def read(path: str) -> None:
    """Read one file and print what it cost as JSON; runs in a process of its own."""
    from kvsim.traces import read_trace  # noqa: PLC0415

    if path.endswith(".parquet"):
        import pyarrow.parquet  # noqa: F401, PLC0415  # not part of the reading

    before = peak_kb()
    start = time.process_time()
    trace = read_trace(path)
    cpu_s = time.process_time() - start
    print(json.dumps({"rows": len(trace), "cpu_s": cpu_s, "before": before, "peak": peak_kb()}))


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Speed and memory of reading traces.")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--read", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.read:
        read(arguments.read)
        return 0
    print(f"{'case':14}{'rows':>12}{'rows / CPU s':>15}{'goal':>12}{'peak MB':>10}{'B / row':>9}")
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.case or CASES:
            kind, write = CASES[name]
            path = Path(folder) / name
            write(path, arguments.rows)
            command = [sys.executable, __file__, "--read", str(path)]
            out = subprocess.run(command, check=True, capture_output=True, text=True)
            result = json.loads(out.stdout)
            path.unlink()
            per_row = (result["peak"] - result["before"]) * 1024 / result["rows"]
            print(
                f"{name:14}{result['rows']:>12,}{result['rows'] / result['cpu_s']:>15,.0f}"
                f"{GOALS[kind]:>12,}{result['peak'] / 1024:>10,.0f}{per_row:>9.0f}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
