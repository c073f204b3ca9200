"""Statistics of many numbers for the summary: count, mean, percentiles and maximum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsim.sim.documents.summary import Statistics
from kvsim.traces.common.quantities import PS_PER_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.sim.recording.gaps import GapHistogram


def statistics(values: NDArray[np.float64]) -> Statistics:
    """Return statistics of the values that are not nan; without any, only the count is set."""
    defined = values[~np.isnan(values)]
    if not len(defined):
        return Statistics(num=0, mean=None, p50=None, p90=None, p99=None, max=None)
    p50, p90, p99 = (float(value) for value in np.percentile(defined, (50, 90, 99)))
    return Statistics(
        num=len(defined),
        mean=float(defined.mean()),
        p50=p50,
        p90=p90,
        p99=p99,
        max=float(defined.max()),
    )


def gap_statistics(gaps: GapHistogram) -> Statistics:
    """Return statistics of token gaps in seconds."""
    if not gaps.num:
        return statistics(np.empty(0))
    p50, p90, p99 = (gaps.quantile_ps(q) / PS_PER_S for q in (0.5, 0.9, 0.99))
    return Statistics(
        num=gaps.num,
        mean=gaps.mean_ps() / PS_PER_S,
        p50=p50,
        p90=p90,
        p99=p99,
        max=gaps.max_ps / PS_PER_S,
    )
