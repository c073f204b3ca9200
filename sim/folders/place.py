"""Where a run folder may be: told before the simulation, not after it."""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from kvsim.traces.common.final_path import final_path

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

MANIFEST: Final = "manifest.json"
SCHEMA: Final = "kvsim.manifest/1"
COMPARISON: Final = "comparison.json"
REPORT: Final = "report.html"
BLOCKS: Final = "blocks.parquet"
BLOCK_MAP: Final = "block-map.html"
FILES: Final = ("requests.parquet", "series.parquet", "summary.json", REPORT, MANIFEST)
ASKED_FOR: Final = (BLOCKS, BLOCK_MAP)
"""Files that not every run has."""


def row_blocks(number: int) -> str:
    """Name of the block map of a comparison's row, counted from 1."""
    return f"blocks-{number}.parquet"


def row_blocks_in(folder: Path) -> list[Path]:
    """Block maps of a comparison's rows, in their order."""
    found = (path for path in folder.glob("blocks-*.parquet") if _ROW_BLOCKS.fullmatch(path.name))
    return sorted(found, key=lambda path: int(path.stem.partition("-")[2]))


def row_block_drafts_in(folder: Path) -> list[Path]:
    """Drafts of block maps of a comparison's rows, such as a killed one leaves."""
    found = folder.glob(draft_name("blocks-*.parquet"))
    return [path for path in found if _ROW_BLOCKS.fullmatch(path.name)]


def draft_name(name: str) -> str:
    """Name of a file of the run folder while it is written."""
    return f".{name}.part"


@contextmanager
def drafted(path: Path) -> Generator[Path]:
    """Name to write a file under: renamed at the end, gone where the block fails.

    A reader of ``path`` never meets half a file. Where it is a link, the file that it leads to is
    written.

    Raises
    ------
    OSError
        Where the block or the renaming raises one, or as
        :func:`~kvsim.traces.common.final_path.final_path`; it names ``path``.
    """
    final = final_path(path)
    draft = final.with_name(draft_name(final.name))
    try:
        yield draft
        draft.replace(final)
    except OSError as error:
        text = f"{path} cannot be written: {error.strerror or error}"
        raise OSError(error.errno, text) from error
    finally:
        with suppress(OSError):  # on a disk that may not be written
            draft.unlink(missing_ok=True)


_OURS: Final = frozenset(name for file in (*FILES, *ASKED_FOR) for name in (file, draft_name(file)))
"""What a run that was killed while it wrote may leave behind."""
_ROW_BLOCKS: Final = re.compile(r"blocks-[0-9]+\.parquet|\.blocks-[0-9]+\.parquet\.part")


def check_run_folder(folder: Path) -> None:
    """Refuse a place that cannot be written, or holds what is no run of kvsim.

    Accepted are an absent or empty folder, an earlier run, and what is left of one that was killed
    while it wrote.

    Raises
    ------
    ValueError
        With the folder's name and the remedy.
    """
    check_writable(folder)
    if not folder.exists():
        return
    foreign = (folder / MANIFEST).exists() or any(p.name not in _OURS for p in folder.iterdir())
    if foreign and not _has_schema(folder / MANIFEST, SCHEMA):
        raise ValueError(
            f"{folder} exists and is not a run of kvsim; choose another folder or empty it"
        )


def check_comparison_folder(folder: Path, schema: str) -> None:
    """Refuse a place that cannot be written, or holds anything but a comparison of ``schema``.

    Raises
    ------
    ValueError
        With the folder's name and the remedy.
    """
    check_writable(folder)
    if not folder.exists():
        return
    ours = {name for file in (REPORT, COMPARISON, BLOCK_MAP) for name in (file, draft_name(file))}
    names = {path.name for path in folder.iterdir() if not _ROW_BLOCKS.fullmatch(path.name)}
    drafts_only = not names & {REPORT, COMPARISON}
    if names - ours or not (drafts_only or _has_schema(folder / COMPARISON, schema)):
        raise ValueError(
            f"{folder} exists and is not a comparison of kvsim; choose another folder or empty it"
        )


def check_writable(folder: Path) -> None:
    """Refuse a place where no folder can be made, or that cannot be written.

    Raises
    ------
    ValueError
        With the folder's name and the remedy.
    """
    nearest = folder
    while not nearest.exists():
        if nearest.is_symlink():
            raise ValueError(
                f"{nearest} is a link to {nearest.readlink()}, which does not exist; "
                "--out needs a folder"
            )
        nearest = nearest.parent
    if not nearest.is_dir():
        where = "" if nearest == folder else f", so {folder} cannot be made"
        raise ValueError(f"{nearest} is a file{where}; --out needs a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise ValueError(f"{nearest} may not be written; choose another folder for --out")


@contextmanager
def run_folder_made(
    folder: Path, check: Callable[[Path], None] = check_run_folder
) -> Generator[None]:
    """Make a run folder for the block that simulates; taken away again where it stays empty.

    Raises
    ------
    ValueError
        As ``check``.
    OSError
        Where the folder cannot be made.
    """
    check(folder)
    absent = [path for path in (folder, *folder.parents) if not path.exists()]
    with naming_folder(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        with suppress(OSError):  # it holds something
            for path in absent:
                path.rmdir()


@contextmanager
def naming_folder(folder: Path) -> Generator[None]:
    """Name the folder in errors of the operating system, some of which name no file."""
    try:
        yield
    except OSError as error:
        text = f"the run cannot be written into {folder}: {error.strerror or error}"
        raise OSError(error.errno, text) from error


def _has_schema(file: Path, schema: str) -> bool:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and document.get("schema") == schema
