"""Rows and runs of a comparison as tables for pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsim.traces.common.readable import storable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import pandas as pd

    from kvsim.sim.comparison.row import Row


def stacked(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Frames of the same columns below each other, each row after the name of its frame."""
    import pandas as pd  # noqa: PLC0415 - only who asks for a frame pays for pandas

    table = pd.concat(frames.values(), ignore_index=True)
    places = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames.values()])
    names = pd.Categorical.from_codes(places, pd.Index(storable([*frames])))
    table.insert(0, "name", pd.Series(names))
    return table


def row_numbers(row: Row) -> dict[str, Any]:
    """Columns of one run: its metrics, verdict, and shares of KV memory while requests waited."""
    shares = row.views["six"] or {}
    name, trace = storable([row.name, row.trace])
    return {
        "name": name,
        "trace": trace,
        "rate_scale": row.rate_scale,
        "verdict": row.verdict["kind"],
        **row.metrics,
        **{f"{state}_share": share for state, share in shares.items()},
    }
