"""What the summary tells of many numbers: how many, their mean, percentiles, the largest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsim.traces.common.quantities import PS_PER_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.sim.recording.gap_histogram import GapHistogram


def statistics(values: NDArray[np.float64]) -> dict[str, object]:
    """Of the values that are defined; where none is, ``None`` but for their number."""
    defined = values[~np.isnan(values)]
    if not len(defined):
        return {"num": 0, "mean": None, "p50": None, "p90": None, "p99": None, "max": None}
    p50, p90, p99 = (float(value) for value in np.percentile(defined, (50, 90, 99)))
    return {
        "num": len(defined),
        "mean": float(defined.mean()),
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "max": float(defined.max()),
    }


def gap_statistics(gaps: GapHistogram) -> dict[str, object]:
    """The same of token gaps, in seconds."""
    if not gaps.num:
        return statistics(np.empty(0))
    p50, p90, p99 = (gaps.quantile_ps(q) / PS_PER_S for q in (0.5, 0.9, 0.99))
    return {
        "num": gaps.num,
        "mean": gaps.mean_ps() / PS_PER_S,
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "max": gaps.max_ps / PS_PER_S,
    }
