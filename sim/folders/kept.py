"""The temporary folder of a comparison's runs, and those that killed processes left.

Who makes a folder holds a lock on it, which the operating system gives back however the process
ends. So a folder whose lock is free has lost its owner, wherever that ran and whatever its number.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Final

PREFIX: Final = "kvsim-runs-"
_NAME: Final = re.compile(rf"{PREFIX}[a-z0-9_]{{8}}")
"""As ``mkdtemp`` makes them."""
_OURS: Final = re.compile(r"[0-9]+\.pickle|\.[0-9]+\.pickle\.part")
_DAY_S: Final = 86_400
"""Of younger folders the lock may not have been taken yet."""


class KeptFolder:
    """A new folder; it is this process's until :meth:`take_away`, or the end of the process.

    Raises
    ------
    OSError
        Where no temporary folder can be made.
    """

    def __init__(self) -> None:
        remove_left()
        self.path = Path(mkdtemp(prefix=PREFIX))
        self._owner = os.getpid()
        self._lock = _locked(self.path)

    def take_away(self) -> None:
        """Remove it; a forked process has it from its parent and leaves it alone."""
        if os.getpid() == self._owner:
            shutil.rmtree(self.path, ignore_errors=True)
            if self._lock is not None:
                os.close(self._lock)


def remove_left() -> None:
    """Remove folders of killed processes that are a day old, and hold nothing but kept runs."""
    for folder in Path(gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is another user's, or goes meanwhile
            _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    about = folder.lstat()
    if folder.is_symlink() or not folder.is_dir() or about.st_mtime > time.time() - _DAY_S:
        return
    if sys.platform != "win32" and about.st_uid != os.getuid():
        return
    if not _NAME.fullmatch(folder.name) or not all(map(_is_ours, folder.iterdir())):
        return
    lock = _locked(folder)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _is_ours(path: Path) -> bool:
    return bool(_OURS.fullmatch(path.name)) and path.is_file() and not path.is_symlink()


def _locked(folder: Path) -> int | None:
    """What holds the folder's lock until it is closed; ``None`` where somebody else holds it.

    Never where there are no such locks.
    """
    if sys.platform == "win32":
        return None
    import fcntl  # noqa: PLC0415 - not on Windows

    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        return None
    return opened
