"""Arrivals of a stationary renewal process in one window, and draws from a table of lengths."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Window:
    """A window's rate and law of gaps: ``Gamma``, ``Weibull``, or ``""`` for exponential ones."""

    length_s: float
    rate_per_s: float
    law: str
    shape: float

    def gaps_s(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw gaps of mean ``1 / rate``."""
        mean = 1 / self.rate_per_s
        if self.law == "Gamma":
            return rng.gamma(self.shape, mean / self.shape, count)
        if self.law == "Weibull":
            scale = mean / math.gamma(1 + 1 / self.shape)
            return scale * rng.weibull(self.shape, count)
        return rng.exponential(mean, count)

    def covering_gap_s(self, rng: np.random.Generator) -> float:
        """Draw the gap that covers a given moment: gaps weighted by their length."""
        mean = 1 / self.rate_per_s
        if self.law == "Weibull":
            scale = mean / math.gamma(1 + 1 / self.shape)
            return float(scale * rng.gamma(1 + 1 / self.shape) ** (1 / self.shape))
        shape = self.shape if self.law == "Gamma" else 1.0
        return float(rng.gamma(shape + 1, mean / shape))


def arrivals_s(window: Window, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw the arrivals of a window, in seconds from its start; none where its rate is 0."""
    if not window.rate_per_s:
        return np.zeros(0)
    pieces = [np.array([rng.random() * window.covering_gap_s(rng)])]
    chunk = int(window.rate_per_s * window.length_s) + 16
    while pieces[-1][-1] < window.length_s:
        pieces.append(pieces[-1][-1] + np.cumsum(window.gaps_s(chunk, rng)))
    times = np.concatenate(pieces)
    return times[times < window.length_s]


@dataclass(frozen=True, slots=True)
class LengthTable:
    """Token counts and the sums of their probabilities up to each."""

    tokens: NDArray[np.int64]
    up_to: NDArray[np.float64]

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw lengths."""
        return self.tokens[np.searchsorted(self.up_to, rng.random(count), side="right")]
