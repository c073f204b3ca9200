"""Statistics of a trace: lengths, rate, burstiness.

Percentiles interpolate linearly. CV is the standard deviation of the gaps between sorted arrivals
over their mean; IoD, the index of dispersion, is the variance of the number of arrivals per bin
over its mean, over all bins from the first arrival to the last, the last bin perhaps cut short.
Both take population variances. A Poisson process has 1 for either.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.common.part import Part, key
from kvsim.traces.trace.order_statistics import blocks, percentile
from kvsim.traces.trace.time_grid import gap_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.trace.trace import Trace

IOD_BINS_S: Final = (1, 60)
_NS_PER_S: Final = 10**9
_STEPS: Final = (1, 2, 5)


class Lengths(Part):
    """Summary of token counts."""

    mean: float = key("1", "tokens")
    p50: float = key("1", "tokens")
    p90: float = key("1", "tokens")
    p99: float = key("1", "tokens")
    max: int = key("1", "tokens")
    total: int = key("1", "tokens")

    @classmethod
    def of(cls, tokens: NDArray[np.int64]) -> Lengths:
        """Summarise at least one count."""
        p50, p90, p99 = (percentile(tokens, percent) for percent in (50, 90, 99))
        return cls(
            mean=float(tokens.mean()),
            p50=p50,
            p90=p90,
            p99=p99,
            max=int(tokens.max()),
            total=int(tokens.sum()),
        )


class Arrivals(Part):
    """When requests come; None where too few times are distinct to tell."""

    requests: int = key("1", "those with a time of their own")
    span_s: float = key("s", "first to last")
    rate_per_s: float | None = key("/s")
    gap_cv: float | None = key("1", "standard deviation of the gaps by their mean")
    iod: dict[int, float] = key("1", "dispersion in bins of this many seconds, up to the span")

    @classmethod
    def of(cls, arrival_ns: NDArray[np.int64]) -> Arrivals:
        """Summarise at least one arrival; they need no order."""
        times = arrival_ns
        if any((gaps < 0).any() for gaps in gap_blocks(times)):
            times = np.sort(times)
        span_ns = int(times[-1]) - int(times[0])
        if not span_ns:
            return cls(requests=len(times), span_s=0.0, rate_per_s=None, gap_cv=None, iod={})
        mean = span_ns / (len(times) - 1)
        squares = sum(float(((gaps - mean) ** 2).sum()) for gaps in gap_blocks(times))
        return cls(
            requests=len(times),
            span_s=span_ns / _NS_PER_S,
            rate_per_s=len(times) / (span_ns / _NS_PER_S),
            gap_cv=math.sqrt(squares / (len(times) - 1)) / mean,
            iod={s: _dispersion(times, s) for s in IOD_BINS_S if span_ns >= s * _NS_PER_S},
        )


def _dispersion(times: NDArray[np.int64], bin_s: int) -> float:
    """IoD; bins without arrivals are counted, not stored."""
    squares = unfinished = 0
    last = -1  # the bin that a block before may have left unfinished
    for block in blocks(times):
        bins, counts = np.unique((block - times[0]) // (bin_s * _NS_PER_S), return_counts=True)
        if bins[0] == last:
            counts[0] += unfinished
        else:
            squares += unfinished**2
        squares += int((counts[:-1] ** 2).sum())
        last, unfinished = int(bins[-1]), int(counts[-1])
    squares += unfinished**2
    num_bins = last + 1
    mean = len(times) / num_bins
    return (squares / num_bins - mean**2) / mean


class Statistics(Part):
    """All of it."""

    rows: int = key("1", "rows of the file")
    requests: int = key("1", "requests in the statistics below, including requests without output")
    failed: int = key("1", "rows that the source calls failed")
    skipped: int = key("1", "rows that were left out")
    zero_outputs: int = key("1", "requests without an output")
    prompt: Lengths = key()
    output: Lengths | None = key("", "output lengths; `null` if the file has none")
    arrivals: Arrivals | None = key(
        "",
        "`null` where the file says no times, or all its sessions start at once: when they start "
        "is then not known",
    )
    sessions: int | None = key("1", "`null` where the file names none")
    users: int | None = key("1", "`null` where the file names none")


def statistics_of(trace: Trace) -> Statistics:
    """Compute the statistics of a trace with at least one request; O(n log n)."""
    receipt = trace.receipt
    has_outputs = receipt is None or receipt.has_outputs
    has_times = receipt is None or receipt.has_times
    starts = _session_starts_ns(trace)
    arrival_ns = trace.arrival_ns if trace.has_time is None else trace.arrival_ns[trace.has_time]
    known = has_times and not (len(starts) > 1 and len(set(starts)) == 1)
    return Statistics(
        rows=receipt.rows_read if receipt is not None else len(trace),
        requests=len(trace),
        failed=_sum(receipt.failed) if receipt is not None else 0,
        skipped=_sum(receipt.skipped) if receipt is not None else 0,
        zero_outputs=int(np.count_nonzero(trace.output_tokens == 0)) if has_outputs else 0,
        prompt=Lengths.of(trace.prompt_tokens),
        output=Lengths.of(trace.output_tokens) if has_outputs else None,
        arrivals=Arrivals.of(arrival_ns) if known else None,
        sessions=len(starts) or None,
        users=len(set(trace.user or ()) - {""}) or None,
    )


def _session_starts_ns(trace: Trace) -> list[int]:
    starts: dict[str, int] = {}
    if trace.session is not None:
        for index, session in enumerate(trace.session):
            if session and session not in starts:
                starts[session] = int(trace.arrival_ns[index])
    return list(starts.values())


def _sum(reasons: dict[str, tuple[int, int]]) -> int:
    return sum(count for count, _ in reasons.values())


def length_histogram(tokens: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Count lengths up to 1, 2, 5, 10, 20, ... tokens.

    Returns pairs (largest length of the class, count) from the first class that holds any to the
    last one; a class begins where the one before ends.
    """
    edges = np.array([step * 10**power for power in range(18) for step in _STEPS])
    counts = np.zeros(len(edges), dtype=np.int64)
    for block in blocks(tokens):
        classes = np.searchsorted(edges, block, side="left")
        counts += np.bincount(classes, minlength=len(edges))
    used = np.flatnonzero(counts)
    first, last = int(used[0]), int(used[-1])
    return [(int(edges[i]), int(counts[i])) for i in range(first, last + 1)]
