"""The logarithmic bins that token gaps are counted in: 1 % wide, with integers for edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SMALLEST_PS: Final = 1_000_000  # 1 us: all shorter gaps share the first bin
_LONGEST_PS: Final = 2**63 - 1  # a hundred days


def _edges() -> NDArray[np.int64]:
    edges, edge = [0], _SMALLEST_PS
    while edge < _LONGEST_PS:
        edges.append(edge)
        edge = max(edge + 1, edge * 101 // 100)
    return np.array([*edges, _LONGEST_PS], dtype=np.int64)


EDGES: Final = _edges()
"""Bin ``i`` holds the gaps in ``[EDGES[i], EDGES[i + 1])``, in ps."""

NUM_BINS: Final = len(EDGES) - 1


def bins_of(gaps_ps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bins of gaps."""
    return np.searchsorted(EDGES, gaps_ps, side="right") - 1


def quantiles_ps(
    counts: NDArray[np.int64], max_ps: NDArray[np.int64], first_bin: int, q: float
) -> NDArray[np.float64]:
    """Quantile ``q`` in [0, 1] of each row of ``counts``, nan without gaps.

    Within 0.5 % from 1 us on. Columns are bins from ``first_bin`` on; ``max_ps``: the longest gap
    of each row.
    """
    if not counts.size:
        return np.full(len(counts), np.nan)
    seen = counts.cumsum(axis=1)
    rank = np.maximum(q * seen[:, -1:], 1)
    bins = first_bin + (seen >= rank).argmax(axis=1)
    longest = np.minimum(EDGES[bins + 1] - 1, max_ps)
    middle = (EDGES[bins].astype(np.float64) + longest) / 2
    return np.where(seen[:, -1] > 0, middle, np.nan)
