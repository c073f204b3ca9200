"""Write a profile, or fitted terms, so that a reader never meets half of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.cost.profile_file import dump_profile
from kvsim.sim.folders.place import drafted
from kvsim.traces.common.final_path import final_path

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.sim.cost.profile import Profile


def check_output(path: Path) -> None:
    """Refuse, before any work, a place that cannot hold a file: ``ValueError`` or ``OSError``."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; --out is the file to write")
    folder = final_path(path).parent
    if not folder.is_dir():
        raise ValueError(f"{path}: there is no folder {folder}")


def write_profile(profile: Profile, path: Path) -> None:
    """Write a profile as :func:`write_whole` does."""
    write_whole(dump_profile(profile), path)


def write_whole(text: str, path: Path) -> None:
    """Write under a temporary name in the same folder, then rename; ``OSError`` names ``path``."""
    with drafted(path) as draft:
        draft.write_text(text, encoding="utf-8")
