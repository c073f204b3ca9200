"""What a reader is asked for, and the files it may read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.sim.models import ModelSpec

_SUFFIXES: Final = (".csv", ".csv.gz")
_VARIANTS: Final = ("-instruct-2507", "-instruct-hf", "-instruct", "-hf")


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Tables of ``model`` split over ``tp`` cards, in files or folders."""

    paths: tuple[Path, ...]
    model: ModelSpec
    tp: int = 1
    hardware: str | None = None
    """Our name of the card, where the tables are of several."""

    @property
    def where(self) -> str:
        """Opening of an error message."""
        return ", ".join(str(path) for path in self.paths)

    def files(self) -> list[Path]:
        """All CSV files of the paths, sorted; folders are searched in depth.

        Raises ``OSError`` for a path that is not there, ``ValueError`` for one without CSV files.
        """
        found: list[Path] = []
        for path in self.paths:
            if not path.exists():
                raise FileNotFoundError(2, "no such file or folder", str(path))
            if path.is_dir():
                inside = sorted(p for p in path.rglob("*") if p.name.endswith(_SUFFIXES))
                if not inside:
                    raise ValueError(f"{path}: no .csv or .csv.gz file in this folder")
                found += inside
            else:
                found.append(path)
        return found


def plain_name(name: str) -> str:
    """Name of a model without its owner and what does not change its shape.

    ``meta-llama__Meta-Llama-3-70B`` and ``llama-3-70b`` are the same.
    """
    last = name.replace("__", "/").rsplit("/", maxsplit=1)[-1].lower()
    last = last.removeprefix("meta-").replace("llama2-", "llama-2-")
    for suffix in _VARIANTS:
        last = last.removesuffix(suffix)
    return last
