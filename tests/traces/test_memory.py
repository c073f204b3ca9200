"""Memory of reading: what grows with the file is the columns, 24 bytes a row.

Files of two sizes are read in processes of their own, and the difference of their peaks counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.small_pages import SMALL_PAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

_ROWS: Final = (1_000_000, 6_000_000)
_COLUMN_BYTES: Final = 24
_MARGIN_BYTES: Final = 4
"""Half of one more column."""
_MALLOC: Final = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20)}
"""Where it is not given, glibc moves it while it runs, up to 32 MB; how the growing columns then
come to lie on its heap counts as 3 to 5 bytes a row, another number on another machine."""
_CHUNK: Final = 100_000
_READ: Final = """
import sys
from pathlib import Path
from kvsim.traces import read_trace
from kvsim.traces.trace.statistics import statistics_of
statistics = statistics_of(read_trace(sys.argv[1], keep_unusable=True))
status = Path("/proc/self/status").read_text("utf-8")
peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
print(statistics.requests, int(peak.split()[1]) * 1024)
"""


def chunks(rows: int) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Yield arrivals in us, prompts and answers; some arrivals are ties."""
    rng = np.random.default_rng(0)
    last = 0
    for _ in range(0, rows, _CHUNK):
        times = last + np.cumsum(rng.integers(0, 20_000, _CHUNK))
        last = int(times[-1])
        yield times, rng.integers(1, 8000, _CHUNK), rng.integers(1, 1000, _CHUNK)


def write_own_csv(path: Path, rows: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("arrival_ns,prompt_tokens,output_tokens\n")
        for columns in chunks(rows):
            lines = zip(*(column.tolist() for column in columns), strict=True)
            file.writelines(f"{time}000,{prompt},{output}\n" for time, prompt, output in lines)


def write_azure_csv(path: Path, rows: int) -> None:
    zero = np.datetime64("2024-05-10 00:00:00", "us")
    with path.open("w", encoding="utf-8") as file:
        file.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
        for times, prompts, outputs in chunks(rows):
            stamps = (zero + times).astype(str).tolist()
            lines = zip(stamps, prompts.tolist(), outputs.tolist(), strict=True)
            file.writelines(f"{time},{prompt},{output}\n" for time, prompt, output in lines)


def write_parquet(path: Path, rows: int) -> None:
    """One row group of all rows, as other tools write them."""
    names = ("arrival_ns", "prompt_tokens", "output_tokens")
    columns = [np.concatenate(pieces) for pieces in zip(*chunks(rows), strict=True)]
    pq.write_table(pa.table(dict(zip(names, columns, strict=True))), path, row_group_size=rows)


def peak_bytes(path: Path, rows: int) -> int:
    out = subprocess.run(
        [sys.executable, "-c", SMALL_PAGES + _READ, str(path)],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | _MALLOC,
    ).stdout
    read, peak = map(int, out.split())
    assert read == rows
    return peak


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("write", [write_own_csv, write_azure_csv, write_parquet])
def test_nothing_but_the_columns_grows_with_the_file(
    write: Callable[[Path, int], None], tmp_path: Path
) -> None:
    peaks = []
    for rows in _ROWS:
        path = tmp_path / ("t.parquet" if write is write_parquet else "t.csv")
        write(path, rows)
        peaks.append(peak_bytes(path, rows))
    per_row = (peaks[1] - peaks[0]) / (_ROWS[1] - _ROWS[0])
    assert per_row <= _COLUMN_BYTES + _MARGIN_BYTES
