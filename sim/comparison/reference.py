"""Rows of a comparison that no engine could be: they read the future, or cache without memory.

They are never the best of a row. What reads the future is told as signed differences to the same
scenario under LRU: in an engine it is one more policy, and may be worse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kvsim.policies.eviction import uses_oracle
from kvsim.sim.documents.comparison import Differences, DifferenceToLRU

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.documents.comparison import Metrics, Row


def reads_future(row: Row) -> bool:
    """Whether the row's eviction order knows the requests to come."""
    return uses_oracle(cast("str", _eviction(row)["policy"]))


def is_reference(row: Row) -> bool:
    """Whether the row is there to be compared with, not to be built."""
    return reads_future(row) or _eviction(row)["capacity"] == "inf"


def differences_to_lru(rows: Sequence[Row]) -> list[DifferenceToLRU]:
    """For each row that reads the future: its metrics less those of the same scenario under LRU.

    Rows without such a partner are left out.
    """
    found = []
    for row in rows:
        if not reads_future(row):
            continue
        wanted = row.scenario | {"eviction": _eviction(row) | {"policy": "lru"}}
        partner = next((other for other in rows if other.scenario == wanted), None)
        if partner is not None:
            metrics = _differences(row.metrics, partner.metrics)
            found.append(DifferenceToLRU(name=row.name, against=partner.name, metrics=metrics))
    return found


def _differences(ours: Metrics, theirs: Metrics) -> Differences:
    def less(value: float | None, other: float | None) -> float | None:
        return None if value is None or other is None else value - other

    return Differences(
        hit_percent=less(ours.hit_percent, theirs.hit_percent),
        ttft_s_p50=less(ours.ttft_s_p50, theirs.ttft_s_p50),
        ttft_s_p99=less(ours.ttft_s_p99, theirs.ttft_s_p99),
        sustained_requests_per_s=less(
            ours.sustained_requests_per_s, theirs.sustained_requests_per_s
        ),
        goodput_requests_per_s=less(ours.goodput_requests_per_s, theirs.goodput_requests_per_s),
    )


def _eviction(row: Row) -> dict[str, object]:
    return cast("dict[str, object]", row.scenario["eviction"])
