"""A comparison on disk: ``comparison.json`` and ``report.html``, under temporary names first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.ctrl_c import ctrl_c_delayed
from kvsim.sim.run_folder import to_json
from kvsim.sim.run_place import COMPARISON, REPORT, draft_name, naming_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def write_comparison(document: Mapping[str, object], page: Iterable[str], folder: Path) -> None:
    """Write both files; OSError where that fails, naming the folder.

    The page of an earlier comparison goes first and the new one comes last, so a folder with a
    page holds a whole comparison.
    """
    drafts = {name: folder / draft_name(name) for name in (REPORT, COMPARISON)}
    with ctrl_c_delayed(), naming_folder(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with drafts[REPORT].open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(page)
            drafts[COMPARISON].write_text(to_json(document), encoding="utf-8")
            (folder / REPORT).unlink(missing_ok=True)
            for name in (COMPARISON, REPORT):
                drafts[name].replace(folder / name)
        finally:
            for draft in drafts.values():
                draft.unlink(missing_ok=True)
