"""Read one CSV table strictly: the columns a reader needs, finite numbers, at least one row."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from kvsim.calibrate.sources.points import Points

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def read_table(path: Path, required: Sequence[str], numbers: Sequence[str]) -> pd.DataFrame:
    """Table of ``path`` with at least the ``required`` columns, ``numbers`` among them numeric.

    Raises ``ValueError`` with the file and what is wrong with it.
    """
    try:
        table = pd.read_csv(path, low_memory=False)
    except pd.errors.EmptyDataError:
        raise ValueError(f"{path}: the file is empty") from None
    except (pd.errors.ParserError, UnicodeDecodeError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: not a CSV table ({str(error).splitlines()[0]})") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise ValueError(f"{path}: not a CSV table ({error})") from None
    missing = [column for column in required if column not in table.columns]
    if missing:
        raise ValueError(
            f"{path}: no column {', '.join(missing)}; it has"
            f" {', '.join(str(column) for column in table.columns[:12])}"
        )
    if table.empty:
        raise ValueError(f"{path}: the table has no rows")
    for column in numbers:
        values: Any = pd.to_numeric(table[column], errors="coerce")
        wrong = ~np.isfinite(values.to_numpy(dtype=float))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"{path}: row {row + 2}: {column}={table[column].iloc[row]!r} is not a number"
            )
        table[column] = values
    return table


def first_row(path: Path) -> dict[str, str]:
    """First row of a CSV file as text, by column; empty for a file that is none."""
    try:
        table = pd.read_csv(path, nrows=1, dtype=str)
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile):
        return {}
    values = table.iloc[0] if len(table) else [""] * len(table.columns)
    return {str(column): str(value) for column, value in zip(table.columns, values, strict=True)}


def points_of(table: pd.DataFrame, loads: dict[str, str], value: str, us_per_unit: float) -> Points:
    """Points by ``{our name: column}``, equal loads merged by their median, in sorted order.

    Times that are not positive are dropped: a counter that read 0 says nothing.
    """
    names = list(loads.values())
    merged = table[table[value] > 0].groupby(names, sort=True)[value].median().reset_index()
    return Points(
        {ours: merged[column].to_numpy(dtype=np.float64) for ours, column in loads.items()},
        merged[value].to_numpy(dtype=np.float64) * us_per_unit,
    )
