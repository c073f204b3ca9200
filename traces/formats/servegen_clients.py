"""ServeGen's files: which belong together, and one client read from its two.

A data set's distributions are texts that hold Python dict literals, ``{9: 0.25, 17: 0.75}``. They
are read by a pattern that knows nothing but numbers; nothing is evaluated.
"""

from __future__ import annotations

import csv
import hashlib
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from kvsim.traces.formats.servegen_draw import LengthTable, Window
from kvsim.traces.reading.batch import shown
from kvsim.traces.reading.nested import document
from kvsim.traces.reading.source import Source
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_FILE: Final = re.compile(r"chunk-(\w+)-(trace\.csv|dataset\.json)((?:\.gz|\.zst)?)")
_NUMBER: Final = r"[0-9]{1,10}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?"
_PAIR: Final = re.compile(rf"\s*([0-9]{{1,10}})\s*:\s*({_NUMBER})\s*")
_LAST_WINDOW_S: Final = 600.0
_FIELDS: Final = ("input_tokens", "output_tokens")
_LONGEST_S: Final = 1e9


class Pair(NamedTuple):
    """The two files of one client."""

    name: str
    trace: Path
    dataset: Path


class ClientFiles(Source):
    """Several files as one source: named by the folder or file given, hashed together."""

    def __init__(self, path: Path, files: Sequence[Pair]) -> None:
        super().__init__(path)
        self._files = files

    def sha256(self) -> str:
        """Return the hash over the hashes of all files, in order."""
        whole = hashlib.sha256()
        for pair in self._files:
            for path in (pair.trace, pair.dataset):
                whole.update(Source(path).sha256().encode())
        return whole.hexdigest()


_SHAPES: Final = {"Gamma": (1e-4, 1e6), "Weibull": (0.01, 1000.0)}


@dataclass(slots=True)
class Client:
    """Windows of arrivals by their start, and the data set as it stands in the file."""

    name: str
    path: Path
    windows: dict[float, Window]
    dataset: Mapping[float, Mapping[str, str]]
    notes: list[str] = field(default_factory=list)
    _tables: dict[tuple[float, str], LengthTable | None] = field(default_factory=dict)

    def expected(self) -> float:
        """Return how many requests all windows have on average."""
        return sum(window.rate_per_s * window.length_s for window in self.windows.values())

    def lengths(self, start_s: float) -> list[LengthTable]:
        """Return the laws of prompt and output lengths in a window, or of the nearest window."""
        return [self._nearest(start_s, name) for name in _FIELDS]

    def _nearest(self, start_s: float, name: str) -> LengthTable:
        earlier = sorted((start for start in self.dataset if start <= start_s), reverse=True)
        later = sorted(start for start in self.dataset if start > start_s)
        for start in (*earlier, *later):
            table = self._table(start, name)
            if table is not None:
                note = "windows without lengths take those of the nearest window"
                if earlier[:1] != [start] and note not in self.notes:
                    self.notes.append(f"{self.name}: {note}")
                return table
        raise TraceError(f"{self.path}: no window has a distribution of {name}")

    def _table(self, start: float, name: str) -> LengthTable | None:
        key = (start, name)
        if key not in self._tables:
            place = f"{self.path}: window {start:g}: {name}"
            self._tables[key] = parse_table(self.dataset[start].get(name, "{}"), place)
        return self._tables[key]


def client_files(path: Path) -> list[Pair]:
    """Return the clients of a folder, or the one that a file belongs to, ordered by name.

    Raises
    ------
    TraceError
        The folder has none, or one of the two files of a client is absent.
    """
    folder, only = (path, None) if path.is_dir() else (path.parent, _FILE.fullmatch(path.name))
    if not path.is_dir() and only is None:
        raise TraceError(
            f"{path}: a ServeGen client is the two files chunk-K-trace.csv and "
            "chunk-K-dataset.json (.gz and .zst too): rename them so, or give their folder"
        )
    found: dict[str, dict[str, Path]] = {}
    for file in sorted(folder.iterdir()):
        match = _FILE.fullmatch(file.name)
        if match and (only is None or match[1] == only[1]):
            found.setdefault(match[1], {})[match[2]] = file
    if not found:
        raise TraceError(f"{path}: the folder has no chunk-K-trace.csv and chunk-K-dataset.json")
    pairs = []
    for name in sorted(found, key=lambda name: (len(name), name)):
        for part in ("trace.csv", "dataset.json"):
            if part not in found[name]:
                raise TraceError(f"{folder}: chunk-{name}-{part} is missing beside its other half")
        pairs.append(Pair(f"client-{name}", found[name]["trace.csv"], found[name]["dataset.json"]))
    return pairs


def load_client(pair: Pair) -> Client:
    """Read one client."""
    dataset = document(Source(pair.dataset))
    if not isinstance(dataset, dict) or not all(isinstance(v, dict) for v in dataset.values()):
        raise TraceError(f"{pair.dataset}: a data set maps window starts to objects; this does not")
    by_start = {_number(pair.dataset, 1, "window start", key): dataset[key] for key in dataset}
    return Client(pair.name, pair.dataset, _windows(pair.trace), by_start)


def _windows(path: Path) -> dict[float, Window]:
    rows: list[tuple[float, int, list[str]]] = []
    try:
        for number, row in enumerate(csv.reader(Source(path).text(newline="")), 1):
            if not row:
                continue
            if len(row) != 6:
                raise TraceError(f"{path}: line {number}: the row has {len(row)} fields; 6 allowed")
            rows.append((_number(path, number, "window start", row[0]), number, row))
    except csv.Error as error:
        raise TraceError(f"{path}: this is not CSV: {error}") from error
    windows = {}
    for index, (start, number, row) in enumerate(rows):
        follows = rows[index + 1][0] if index + 1 < len(rows) else start + _LAST_WINDOW_S
        if follows <= start:
            raise TraceError(f"{path}: line {number}: the next window does not start later")
        rate = _number(path, number, "rate", row[1])
        shape = _number(path, number, "shape", row[4])
        least, most = _SHAPES.get(row[3], (0.0, math.inf))
        if row[3] not in ("", *_SHAPES) or (rate and not least <= shape <= most):
            raise TraceError(
                f"{path}: line {number}: the law of gaps is {row[3]!r} with shape {row[4]}; "
                "allowed are Gamma (shape from 0.0001 to 1000000), Weibull (from 0.01 to 1000) "
                "and nothing"
            )
        if rate:
            windows[start] = Window(follows - start, rate, row[3], shape)
    return windows


def _number(path: Path, line: int, name: str, text: object) -> float:
    try:
        value = float(str(text))
    except ValueError:
        value = math.nan
    if not 0 <= value < _LONGEST_S:
        raise TraceError(f"{path}: line {line}: {name} is {shown(text)}; numbers from 0 allowed")
    return value


def parse_table(text: Any, place: str) -> LengthTable | None:
    """Read ``{9: 0.25, 17: 0.75}``; None for ``{}``. Answers and prompts of 0 tokens drop out.

    Raises
    ------
    TraceError
        Anything but numbers, or probabilities that are negative or do not add up to 1 (+- 2 %).
    """
    stripped = text.strip() if isinstance(text, str) else ""
    if not (stripped.startswith("{") and stripped.endswith("}")):
        raise TraceError(f"{place} is {shown(text)}; allowed are texts such as '{{9: 0.25}}'")
    if not stripped[1:-1].strip():
        return None
    tokens, shares = [], []
    for part in stripped[1:-1].rstrip().removesuffix(",").split(","):
        match = _PAIR.fullmatch(part)
        if match is None:
            raise TraceError(f"{place} holds {shown(part)}; allowed are pairs such as 9: 0.25")
        tokens.append(int(match[1]))
        shares.append(float(match[2]))
    counts, weights = np.array(tokens, dtype=np.int64), np.array(shares)
    total = float(weights.sum())
    if not 0.98 <= total <= 1.02 or counts.max() > 2**31 - 1:
        raise TraceError(f"{place}: the probabilities add up to {total:.4g}; allowed is 1")
    usable = (counts > 0) & (weights > 0)
    if not usable.any():
        return None
    sums = np.cumsum(weights[usable])
    sums /= sums[-1]
    return LengthTable(counts[usable], sums)
