"""Write a profile, or fitted terms, so that a reader never meets half of the file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.sim.profile_file import dump_profile
from kvsim.sim.run_place import check_regular

if TYPE_CHECKING:
    from kvsim.sim.profile import Profile


def check_output(path: Path) -> None:
    """Refuse, before any work, a place that cannot hold a file: ``ValueError`` or ``OSError``."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; --out is the file to write")
    check_regular(path)
    if not path.parent.is_dir():
        raise ValueError(f"{path}: there is no folder {path.parent}")


def write_profile(profile: Profile, path: Path) -> None:
    """Write a profile as :func:`write_whole` does."""
    write_whole(dump_profile(profile), path)


def write_whole(text: str, path: Path) -> None:
    """Write under a temporary name in the same folder, then rename over ``path``."""
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
