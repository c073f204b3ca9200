"""A comparison on disk: ``comparison.json``, written under a temporary name first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.ctrl_c import ctrl_c_delayed
from kvsim.sim.run_folder import to_json
from kvsim.sim.run_place import COMPARISON, draft_name, naming_folder

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.sim.comparison import Comparison


def write_comparison(comparison: Comparison, folder: Path) -> None:
    """Write ``comparison.json`` into a folder; OSError where that fails, naming the folder."""
    draft = folder / draft_name(COMPARISON)
    with ctrl_c_delayed(), naming_folder(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            draft.write_text(to_json(comparison.to_json()), encoding="utf-8")
            draft.replace(folder / COMPARISON)
        finally:
            draft.unlink(missing_ok=True)
