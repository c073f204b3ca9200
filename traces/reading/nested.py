"""Requests inside JSON documents: one document a file, or one a line, as batches of rows."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsim.traces.reading.batch import Batch, shown
from kvsim.traces.reading.tables import parse_json
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source

Numbered = tuple[int, Any]
"""A place (line or row, from 1) and what stands there; a ValueError stands for what is no JSON."""


def document(source: Source) -> Any:
    """Parse the whole file as one JSON value."""
    with source.text(newline=None) as stream:
        text = stream.read()
    try:
        return parse_json(text)
    except ValueError as error:
        raise TraceError(f"{source.path}: the file is not one JSON document: {error}") from error


def documents(source: Source) -> Iterator[Numbered]:
    """Yield the JSON values of a file with their line numbers, one line in memory at a time.

    A file whose first line is no whole value is taken as one document.
    """
    numbered = enumerate(source.text(newline=None), start=1)
    lines: Iterator[tuple[int, str]] = (entry for entry in numbered if entry[1].strip())
    first = next(lines, None)
    if first is None:
        return
    try:
        parse_json(first[1])
    except ValueError as broken:
        second = next(lines, None)
        if second is None or second[1].lstrip().startswith("{"):  # lines, the first one broken
            yield first[0], broken
            lines = lines if second is None else chain([second], lines)
        else:
            yield first[0], document(source)
            return
    else:
        lines = chain([first], lines)
    for number, line in lines:
        try:
            yield number, parse_json(line)
        except ValueError as error:
            yield number, error


def batches(rows: Iterable[Numbered], intake: Intake, keys: Sequence[str]) -> Iterator[Batch]:
    """Yield batches of the rows that ``intake`` wants; a row that is no object is a fault.

    Keys that no row of a batch has are no column of it.
    """
    rows = iter(rows)
    while wanted := intake.rows_wanted():
        taken = list(islice(rows, wanted))
        if not taken:
            return
        batch = Batch(np.array([number for number, _ in taken], dtype=np.int64), {})
        objects: list[dict[str, Any]] = []
        for row, (_, value) in enumerate(taken):
            if isinstance(value, ValueError):
                batch.reject(row, "is not JSON", f"the line is not JSON: {value}")
            elif not isinstance(value, dict):
                batch.reject(row, "is not an object", f"{shown(value)} is no JSON object")
            objects.append(value if isinstance(value, dict) else {})
        occur = set().union(*objects)
        names = [key for key in keys if key in occur]
        batch.columns = {key: [entry.get(key) for entry in objects] for key in names}
        yield batch


def inner(value: object, *path: str) -> Any:
    """Return what stands at a path of keys, or None where any of it is absent."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def first_of(value: object, *paths: tuple[str, ...]) -> Any:
    """Return the first thing that stands at one of these paths, or None."""
    for path in paths:
        found = inner(value, *path)
        if found is not None:
            return found
    return None


def require(batch: Batch, keys: Sequence[str]) -> None:
    """Make sure that these columns exist: absent ones are missing in every row."""
    absent = {key: [None] * len(batch) for key in keys if key not in batch.columns}
    batch.columns = {**batch.columns, **absent}
