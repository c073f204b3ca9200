"""Names of the folders of results and of the files in them.

A run whose folder nobody named has a new one in ``kvsim-runs``, ``<time>-<trace>``. The file
``latest`` there holds the name of the one that was written last. Times are in that name alone:
in the folder, the same inputs give the same bytes.
"""

from __future__ import annotations

import re
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvsim.traces.common.files import check_new_folder, check_writable, new_folder
from kvsim.traces.common.text import shortened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from kvsim.traces.common.files import NewFolder

RUNS: Final = Path("kvsim-runs")
LATEST: Final = RUNS / "latest"
MANIFEST: Final = "manifest.json"
COMPARISON: Final = "comparison.json"
REPORT: Final = "report.html"
BLOCKS: Final = "blocks.parquet"
BLOCK_MAP: Final = "block-map.html"
REQUESTS: Final = "requests.parquet"
SERIES: Final = "series.parquet"
SUMMARY: Final = "summary.json"
FILES: Final = frozenset((REQUESTS, SERIES, SUMMARY, REPORT, MANIFEST, BLOCKS, BLOCK_MAP))
"""Those of a run."""
_ROW_BLOCKS: Final = re.compile(r"blocks-[0-9]+\.parquet")
_LONGEST_NAME: Final = 40


def row_blocks(number: int) -> str:
    """Name of the block map of a comparison's row, counted from 1."""
    return f"blocks-{number}.parquet"


def row_blocks_in(folder: Path) -> list[Path]:
    """Block maps of a comparison's rows, in their order."""
    found = (path for path in folder.glob("blocks-*.parquet") if _ROW_BLOCKS.fullmatch(path.name))
    return sorted(found, key=lambda path: int(path.stem.partition("-")[2]))


def check_result_place(folder: Path | None) -> None:
    """Refuse, before any work, what :func:`result_folder` would refuse: ``ValueError``."""
    if folder is not None:
        _check_name(folder)
        check_new_folder(folder)
        return
    check_writable(RUNS)
    if LATEST.is_dir():
        raise ValueError(
            f"{LATEST} is a folder; it must be the file that names the latest run: move it away, "
            "or give --out"
        )


def result_folder(folder: Path | None, trace: str) -> AbstractContextManager[NewFolder]:
    """New folder for what comes of a trace; ``None``: one in ``kvsim-runs``, the latest then.

    Raises
    ------
    ValueError, OSError
        As :func:`~kvsim.traces.common.files.new_folder`.
    """
    if folder is not None:
        _check_name(folder)
        return new_folder([folder])
    check_result_place(None)
    return new_folder(_names(trace, datetime.now()), LATEST)


def _check_name(folder: Path) -> None:
    if folder.absolute() == LATEST.absolute():
        raise ValueError(f"{LATEST} names the latest run; give the new folder another name")


def latest_result() -> Path:
    """Return the folder in ``kvsim-runs`` that was written last.

    Raises
    ------
    ValueError
        If there is none, or if ``latest`` does not hold the plain name of one.
    """
    try:
        name = LATEST.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ValueError(
            f"there is no {LATEST}, which names the latest run: name the folder of a run"
        ) from None
    if name not in {path.name for path in RUNS.iterdir() if path.is_dir()}:
        raise ValueError(
            f"{LATEST} names {shortened(name, 60)!r}, which is no folder in {RUNS}: "
            "name the folder of a run"
        )
    return RUNS / name


def _names(trace: str, now: datetime) -> Iterator[Path]:
    """Names to try; letters, digits, ``.``, ``-`` and ``_`` are allowed by every system."""
    safe = re.sub(r"[^\w.-]+", "-", trace)[:_LONGEST_NAME].rstrip(".")
    name = f"{now:%Y%m%d-%H%M%S}-{safe}"
    yield RUNS / name
    for number in count(2):
        yield RUNS / f"{name}-{number}"
