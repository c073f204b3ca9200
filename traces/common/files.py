"""Files and folders that come whole or not at all, whoever else writes there.

What is written is a draft first. It lies under its own name in a folder of this process beside the
place that it is for, ``.kvsim-draft-...``, and one renaming brings it there. A file takes the place
of an earlier one. A folder never does: who is first has the name, and others are told.

A process that is killed leaves its draft folder behind. The next one that writes there removes it:
who makes such a folder holds a lock on it, which the operating system gives back however the
process ends.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

_MACHINE: Final = re.sub("[^A-Za-z0-9]", "-", platform.node())[:40]
"""Locks of another machine may not be seen here, even on a disk that both have."""
_PREFIX: Final = f".kvsim-draft-{_MACHINE}-"
_NAME: Final = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")
"""As ``mkdtemp`` makes them."""


class OwnFolder:
    """A new folder in ``parent``: this process's until :meth:`remove`, or its end.

    Those that killed processes left in ``parent`` go first.

    Raises
    ------
    OSError
        Where no folder can be made.
    """

    def __init__(self, parent: Path) -> None:
        _living(parent)
        self._owner = os.getpid()
        self.path, self._lock = _made(parent)

    def remove(self) -> None:
        """Remove it; a forked process has it from its parent and leaves it alone."""
        if os.getpid() == self._owner:
            shutil.rmtree(self.path, ignore_errors=True)
            if self._lock is not None:
                os.close(self._lock)


@contextmanager
def drafted(path: Path) -> Generator[Path]:
    """Name to write a file under: it takes the place of ``path`` where the block ends well.

    A reader of ``path`` never meets half a file. Where it is a link, the file that it leads to is
    written.

    Raises
    ------
    OSError
        Where the block or the renaming raises one, or as :func:`final_path`; it names ``path``.
    """
    final = final_path(path)
    with _naming(path):
        own = OwnFolder(final.parent)
        try:
            draft = own.path / final.name
            yield draft
            draft.replace(final)
        finally:
            own.remove()


def check_file(path: Path) -> None:
    """Refuse, before any work, a place that cannot hold a file: ``ValueError`` or ``OSError``."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder; name a file")
    folder = final_path(path).parent
    if not folder.is_dir():
        raise ValueError(f"{path}: there is no folder {folder}; make it, or choose another")


def write_file(parts: Iterable[str], path: Path) -> None:
    """Write text as :func:`drafted` says, after :func:`check_file`."""
    check_file(path)
    with drafted(path) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(parts)


def final_path(path: Path) -> Path:
    """Name to rename to: ``path``, or where it is a link, the file that it leads to.

    A file renamed to a link would take the link's place and leave the linked file as it was.

    Raises
    ------
    OSError
        Of a link that leads to itself, or of what a file may not take the place of: a device, a
        pipe, a folder.
    """
    final = Path(os.path.realpath(path)) if path.is_symlink() else path
    if final.is_symlink():
        raise OSError(errno.ELOOP, f"{path} is a link that leads to itself: name a file")
    if final.exists() and not final.is_file():
        raise OSError(
            errno.EINVAL, f"{path} is no regular file: name one, or one that is not there yet"
        )
    return final


class NewFolder:
    """A folder to come: ``path`` is where, ``draft`` is its content so far, to be written into.

    :func:`new_folder` makes it.
    """

    def __init__(
        self, path: Path, others: Iterable[Path], own: OwnFolder, latest: Path | None
    ) -> None:
        self.path = path
        self.draft = own.path / path.name
        self._others = others
        self._latest = latest
        self.draft.mkdir()

    @contextmanager
    def filled(self) -> Generator[Path]:
        """Draft to write the last of; where the block ends well, all comes to ``path``.

        Raises
        ------
        ValueError
            Where another process took the last name meanwhile.
        OSError
            Where the block or the renaming raises one; it names ``path``.
        """
        with _naming(self.path):
            yield self.draft
            while not self._renamed():
                taken = self.path
                self.path = next((path for path in self._others if not _why_taken(path)), taken)
                if self.path == taken:
                    raise ValueError(
                        f"{taken} was written by another process meanwhile and stays as it is; "
                        "this one's is not kept: give another name"
                    )
            if self._latest is not None:
                write_file([f"{self.path.name}\n"], self._latest)

    def _renamed(self) -> bool:
        """Whether the draft came to its place; not where something else is there."""
        try:
            self.draft.rename(self.path)
        except OSError:
            if os.path.lexists(self.path):
                return False
            raise
        return True


@contextmanager
def new_folder(names: Iterable[Path], latest: Path | None = None) -> Generator[NewFolder]:
    """Folder under the first of the names that is free, refused at once where none is.

    ``latest`` is a file that then holds its name. Nothing is left where the block ends without
    :meth:`NewFolder.filled`.

    Raises
    ------
    ValueError
        With the last name, and the remedy.
    OSError
        Where no folder can be made; it names the folder.
    """
    left = iter(names)
    path = _first_free(left)
    absent = [folder for folder in path.parents if not folder.exists()]
    with ExitStack() as at_end:
        at_end.callback(_remove_empty, absent)
        with _naming(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            own = OwnFolder(path.parent)
            at_end.callback(own.remove)
            new = NewFolder(path, left, own, latest)
        yield new


def check_new_folder(path: Path) -> None:
    """Refuse, before any work, a name that :func:`new_folder` would refuse: ``ValueError``."""
    _first_free(iter([path]))


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


def _remove_empty(folders: Iterable[Path]) -> None:
    with suppress(OSError):  # it holds something
        for folder in folders:
            folder.rmdir()


def _first_free(names: Iterable[Path]) -> Path:
    why = "no name is given"
    for path in names:
        why = _why_taken(path)
        if not why:
            check_writable(path)
            return path
    raise ValueError(why)


def _why_taken(path: Path) -> str:
    """Why no folder can come to ``path``; empty where one can."""
    if path.exists():
        return f"{path} is there already, and nothing is written over it: give a new name"
    if any((folder / path.name).exists() for folder in _living(path.parent)):
        return f"{path} is being written by another process: give another name, or wait for its end"
    return ""


@contextmanager
def _naming(path: Path) -> Generator[None]:
    """Name what is written in errors of the operating system, some of which name no file."""
    try:
        yield
    except OSError as error:
        text = f"{path} cannot be written: {error.strerror or error}"
        raise OSError(error.errno, text) from error


def _made(parent: Path) -> tuple[Path, int | None]:
    """Make a folder and lock it; another process may take it for one that was left before that."""
    while True:
        folder = Path(mkdtemp(prefix=_PREFIX, dir=parent))
        try:
            lock = _locked(folder)
        except (BlockingIOError, FileNotFoundError):
            continue
        if folder.exists():
            return folder, lock
        if lock is not None:
            os.close(lock)


def _living(parent: Path) -> list[Path]:
    """Draft folders of processes that live; those of killed ones are removed."""
    living = []
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it goes meanwhile
            if not _NAME.fullmatch(folder.name) or not _is_ours(folder):
                continue
            try:
                lock = _locked(folder)
            except BlockingIOError:
                living.append(folder)
                continue
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
    return living


def _is_ours(folder: Path) -> bool:
    """Whether it is a folder of this user, and no link to one."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    return sys.platform == "win32" or folder.stat().st_uid == os.getuid()


def _locked(folder: Path) -> int | None:
    """What holds the folder's lock until it is closed; ``None`` where there are no such locks.

    Raises
    ------
    BlockingIOError
        Where somebody else holds it.
    """
    if sys.platform == "win32":
        return None
    import fcntl  # noqa: PLC0415 - not on Windows

    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(opened)
        raise
    except OSError:  # as on some network disks
        os.close(opened)
        return None
    return opened
