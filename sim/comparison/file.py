"""A comparison on disk: ``comparison.json`` and ``report.html``, under temporary names first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.folders.place import (
    BLOCK_MAP,
    COMPARISON,
    REPORT,
    draft_name,
    naming_folder,
    row_block_drafts_in,
    row_blocks,
    row_blocks_in,
)
from kvsim.sim.run.folder import to_json
from kvsim.traces.common.ctrl_c import ctrl_c_delayed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


def write_comparison(
    document: Mapping[str, object], page: Iterable[str], folder: Path, *, num_blocks: int = 0
) -> None:
    """Write both files; OSError where that fails, naming the folder.

    ``num_blocks``: how many rows left a draft of their block map there, which now get their names.

    The page of an earlier comparison goes first and the new one comes last, so a folder with a
    page holds a whole comparison.
    """
    blocks = [row_blocks(number + 1) for number in range(num_blocks)]
    drafts = {name: folder / draft_name(name) for name in (*blocks, COMPARISON, REPORT)}
    with ctrl_c_delayed(), naming_folder(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with drafts[REPORT].open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(page)
            drafts[COMPARISON].write_text(to_json(document), encoding="utf-8")
            for old in (REPORT, BLOCK_MAP, *(path.name for path in row_blocks_in(folder))):
                (folder / old).unlink(missing_ok=True)
            for name, draft in drafts.items():
                draft.replace(folder / name)
        finally:  # of a killed comparison with more rows, too
            for draft in {*drafts.values(), *row_block_drafts_in(folder)}:
                draft.unlink(missing_ok=True)
