"""A comparison on disk: ``comparison.json`` and ``report.html``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.folders.place import COMPARISON, REPORT
from kvsim.sim.run.folder import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def write_comparison(document: Mapping[str, object], page: Iterable[str], folder: Path) -> None:
    """Write both files into a draft folder, which is moved to its place afterwards."""
    with (folder / REPORT).open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(page)
    (folder / COMPARISON).write_text(to_json(document), encoding="utf-8")
