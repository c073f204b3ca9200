"""Measured points of one block: equally long columns of loads, and the time each took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Points:
    """``loads``: float64 columns by name (tokens, requests, bytes); ``us``: microseconds > 0."""

    loads: Mapping[str, NDArray[np.float64]]
    us: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.us)

    def __getitem__(self, load: str) -> NDArray[np.float64]:
        return self.loads[load]

    def where(self, mask: NDArray[np.bool_]) -> Points:
        """Points at which ``mask`` is true."""
        return Points({name: column[mask] for name, column in self.loads.items()}, self.us[mask])

    def and_then(self, other: Points) -> Points:
        """All points of both, in order; both have the same loads."""
        return Points(
            {name: np.concatenate([column, other[name]]) for name, column in self.loads.items()},
            np.concatenate([self.us, other.us]),
        )

    def span(self, column: NDArray[np.float64]) -> tuple[int, int] | None:
        """Inclusive bounds of one column or a product of columns; ``None`` without points."""
        return (int(column.min()), int(column.max())) if len(column) else None


def no_points(*loads: str) -> Points:
    """Block that a source lacks."""
    return Points({load: np.empty(0) for load in loads}, np.empty(0))
