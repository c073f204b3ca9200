"""A page on disk, so that a reader never meets half of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.folders.place import drafted
from kvsim.traces.common.final_path import final_path

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def check_page_place(path: Path) -> None:
    """Refuse, before any work, a place that cannot hold a page: ``ValueError`` or ``OSError``."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of an HTML file")
    folder = final_path(path).parent
    if not folder.is_dir():
        raise ValueError(f"{path}: there is no folder {folder}; make it, or choose another")


def write_page(parts: Iterable[str], path: Path) -> None:
    """Write under a temporary name in the same folder, then rename over ``path``.

    Raises
    ------
    ValueError
        As :func:`check_page_place`.
    OSError
        Where it cannot be written; it names the page.
    """
    check_page_place(path)
    with drafted(path) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(parts)
