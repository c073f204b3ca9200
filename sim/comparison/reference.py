"""Rows of a comparison that no engine could be: they read the future, or cache without memory.

They are never the best of a row. What reads the future is told as signed differences to the same
scenario under LRU: in an engine it is one more policy, and may be worse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from kvsim.policies.eviction import uses_oracle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.comparison.row import Row

COMPARED: Final = (
    "hit_percent",
    "ttft_s_p50",
    "ttft_s_p99",
    "sustained_requests_per_s",
    "goodput_requests_per_s",
)
"""Metrics whose differences are told."""


def reads_future(row: Row) -> bool:
    """Whether the row's eviction order knows the requests to come."""
    return uses_oracle(cast("str", _eviction(row)["policy"]))


def is_reference(row: Row) -> bool:
    """Whether the row is there to be compared with, not to be built."""
    return reads_future(row) or _eviction(row)["capacity"] == "inf"


def differences_to_lru(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For each row that reads the future: its metrics less those of the same scenario under LRU.

    ``name``, ``against``, ``metrics`` (``None`` where either is undefined); rows without such a
    partner are left out.
    """
    found = []
    for row in rows:
        if not reads_future(row):
            continue
        wanted = row.scenario | {"eviction": _eviction(row) | {"policy": "lru"}}
        partner = next((other for other in rows if other.scenario == wanted), None)
        if partner is not None:
            metrics = {name: _less(row, partner, name) for name in COMPARED}
            found.append({"name": row.name, "against": partner.name, "metrics": metrics})
    return found


def _less(row: Row, partner: Row, name: str) -> float | None:
    ours, theirs = row.metrics[name], partner.metrics[name]
    return None if ours is None or theirs is None else ours - theirs


def _eviction(row: Row) -> dict[str, object]:
    return cast("dict[str, object]", row.scenario["eviction"])
