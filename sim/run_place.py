"""Where a run folder may be: told before the simulation, not after it."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

MANIFEST: Final = "manifest.json"
SCHEMA: Final = "kvsim.manifest/1"
FILES: Final = ("requests.parquet", "series.parquet", "summary.json", "report.html", MANIFEST)


def draft_name(name: str) -> str:
    """Name of a file of the run folder while it is written."""
    return f".{name}.part"


_OURS: Final = frozenset((*FILES, *map(draft_name, FILES)))
"""What a run that was killed while it wrote may leave behind."""


def check_run_folder(folder: Path) -> None:
    """Refuse a place that cannot be written, or holds what is no run of kvsim.

    Accepted are an absent or empty folder, an earlier run, and what is left of one that was killed
    while it wrote.

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
    if nearest != folder:
        return
    foreign = (folder / MANIFEST).exists() or any(p.name not in _OURS for p in folder.iterdir())
    if foreign and not _is_run(folder):
        raise ValueError(
            f"{folder} exists and is not a run of kvsim; choose another folder or empty it"
        )


@contextmanager
def run_folder_made(folder: Path) -> Generator[None]:
    """Make a run folder for the block that simulates; taken away again where it stays empty.

    Raises
    ------
    ValueError
        As :func:`check_run_folder`.
    OSError
        Where the folder cannot be made.
    """
    check_run_folder(folder)
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


def _is_run(folder: Path) -> bool:
    try:
        document = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and document.get("schema") == SCHEMA
