"""Where the local page may read and write: traces below one folder, runs inside another."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvsim.traces.common.files import new_folder

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from kvsim.traces.common.files import NewFolder


MOST_TRACES: Final = 500
"""Files that the page offers; a larger folder is a mistake of --root."""
SUFFIXES: Final = (".jsonl", ".json", ".csv", ".parquet", ".txt")
PACKED: Final = (".gz", ".zst", ".bz2", ".xz")
SERVED: Final = ("report.html", "block-map.html", "comparison.json")
"""Files of a run that the page hands out."""

_RUN: Final = re.compile(r"comparison-[1-9][0-9]{0,8}")
_ROOT_VARIABLE: Final = "KVSIM_UI_ROOT"
_OUT_VARIABLE: Final = "KVSIM_UI_OUT"


@dataclass(frozen=True, slots=True)
class Places:
    """``root``: traces are opened below it only; ``out``: run folders are made in it only."""

    root: Path
    out: Path

    @classmethod
    def of_environment(cls) -> Places:
        """Read what :meth:`to_environment` left; the page's script is handed nothing else."""
        return cls(Path(os.environ[_ROOT_VARIABLE]), Path(os.environ[_OUT_VARIABLE]))

    def to_environment(self) -> None:
        """Leave both folders, absolute, to the page's script."""
        os.environ[_ROOT_VARIABLE] = str(self.root.resolve())
        os.environ[_OUT_VARIABLE] = str(self.out.resolve())

    def trace_names(self) -> list[str]:
        """Names, relative to the root, of files that may be traces, in order.

        Left out are hidden files and folders, what a link leads to outside the root, and names that
        are no text, which no page can show.
        """
        names: list[str] = []
        for folder, folders, files in os.walk(self.root):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                path = Path(folder, name)
                if _looks_like_trace(name) and is_text(str(path)) and self._inside(path):
                    names.append(path.relative_to(self.root).as_posix())
                if len(names) == MOST_TRACES:
                    return names
        return names

    def trace(self, name: str) -> Path:
        """Path of a trace by its name relative to the root.

        Raises
        ------
        ValueError
            Where it is no file, or lies outside the root, be it by ``..`` or by a link.
        """
        path = self.root / name
        if "\0" in name or not self._inside(path):
            raise ValueError(f"{name!r} is not below {self.root}: kvsim ui opens traces there only")
        if not path.is_file():
            raise ValueError(f"{name!r} is no file below {self.root}")
        return path

    def next_run(self) -> AbstractContextManager[NewFolder]:
        """Return a new folder ``comparison-N`` for a run."""
        return new_folder(self.out / f"comparison-{number}" for number in count(1))

    def file_of(self, run: str, name: str) -> Path | None:
        """File of a run that may be handed out; ``None`` for everything else."""
        if _RUN.fullmatch(run) is None or name not in SERVED:
            return None
        path = self.out / run / name
        try:
            whole = path.resolve(strict=True)
        except (OSError, RuntimeError):  # none, or a loop of links
            return None
        return path if whole.is_relative_to(self.out.resolve()) and path.is_file() else None

    def _inside(self, path: Path) -> bool:
        try:
            return path.resolve().is_relative_to(self.root.resolve())
        except (OSError, RuntimeError):  # a loop of links
            return False


def is_text(name: str) -> bool:
    """Whether a name of a file can be shown: Linux allows any bytes."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _looks_like_trace(name: str) -> bool:
    if name.startswith("."):
        return False
    for packed in PACKED:
        name = name.removesuffix(packed)
    return name.endswith(SUFFIXES)
