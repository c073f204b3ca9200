"""Laws of lengths in tokens: fixed, log-normal, and tables of quantiles.

A law turns uniform numbers into lengths (so two laws can be drawn together) and knows its own
distribution function, by which the lengths drawn are judged.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from kvsim.traces.reading.tables import parse_json
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_TOKENS: Final = 2**24
"""No law gives more."""
_NUMBER: Final = r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*"
_LOGNORMAL: Final = re.compile(rf"\s*lognormal\(\s*mean\s*={_NUMBER},\s*sigma\s*={_NUMBER}\)\s*")
_TABLE: Final = re.compile(r"\s*table\((.+)\)\s*")
CHOICES: Final = (
    "a whole number from 1, lognormal(mean=M,sigma=S) with the mean M tokens and the standard "
    "deviation S of the logarithm, and table(FILE.json) with pairs [tokens, probability] of a "
    "distribution function"
)


class LengthLaw(Protocol):
    """A distribution of whole numbers from 1."""

    def lengths(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Turn numbers from 0 to 1 into lengths; a greater number never gives a shorter one."""
        ...

    def distribution(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probabilities of at most so many tokens."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same."""

    tokens: int

    def lengths(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """The same number for all."""
        return np.full(len(uniform), self.tokens, dtype=np.int64)

    def distribution(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """0 below the number, 1 from it on."""
        return (tokens >= self.tokens).astype(np.float64)


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Log-normal with this mean, rounded up to whole tokens."""

    mean: float
    sigma: float

    @property
    def _log_median(self) -> float:
        return math.log(self.mean) - self.sigma**2 / 2

    def lengths(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Invert the distribution function."""
        from scipy.special import ndtri  # noqa: PLC0415

        exponents = self._log_median + self.sigma * ndtri(uniform)
        most = math.log(MOST_TOKENS)
        drawn = np.ceil(np.exp(np.clip(exponents, 0.0, most)) - 1e-9)
        lengths: NDArray[np.int64] = drawn.astype(np.int64)
        return lengths

    def distribution(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Phi of the logarithm."""
        from scipy.special import ndtr  # noqa: PLC0415

        away = np.log(np.maximum(tokens, 1)) - self._log_median
        inside = ndtr(away / self.sigma) if self.sigma else (away >= 0).astype(np.float64)
        return np.where(tokens < 1, 0.0, np.where(tokens >= MOST_TOKENS, 1.0, inside))


@dataclass(frozen=True, slots=True)
class QuantileTable:
    """Quantiles, with straight lines between them, rounded up to whole tokens.

    ``probabilities`` rise from 0 to 1; ``tokens`` never fall. Equal neighbours in ``tokens`` are
    an atom: so much of the probability lies on one length; in ``probabilities``, a gap.
    """

    probabilities: tuple[float, ...]
    tokens: tuple[float, ...]

    def __post_init__(self) -> None:
        rises = all(a <= b for a, b in pairwise(self.tokens))
        order = all(a <= b for a, b in pairwise(self.probabilities))
        ends = self.probabilities[:1] + self.probabilities[-1:] == (0.0, 1.0)
        sizes = len(self.tokens) == len(self.probabilities) >= 2
        if not (rises and order and ends and sizes):
            raise TraceError(
                "a table of quantiles needs probabilities that rise from 0 to 1, and as many "
                "lengths that never fall"
            )
        if not (self.tokens[0] >= 0 and 1 <= self.tokens[-1] <= MOST_TOKENS):
            raise TraceError(
                f"a table of quantiles reaches {self.tokens[-1]:g} tokens; allowed are 1 to "
                f"{MOST_TOKENS}"
            )

    @classmethod
    def fit(cls, tokens: NDArray[np.int64], probabilities: Sequence[float]) -> QuantileTable:
        """Take the quantiles of lengths that occur."""
        quantiles = np.quantile(tokens, probabilities, method="inverted_cdf")
        return cls(tuple(probabilities), tuple(quantiles.tolist()))

    def lengths(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """Invert the distribution function."""
        exact = np.interp(uniform, self.probabilities, self.tokens)
        lengths: NDArray[np.int64] = np.maximum(np.ceil(exact - 1e-6), 1).astype(np.int64)
        return lengths

    def distribution(self, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        """Straight lines between the quantiles; at an atom, its upper end."""
        known = np.array(self.tokens, dtype=np.float64)
        heights = np.array(self.probabilities)
        below = np.searchsorted(known, tokens, side="right") - 1
        last = len(known) - 1
        left = np.clip(below, 0, last - 1)
        width = np.maximum(known[left + 1] - known[left], 1e-300)
        part = np.clip((tokens - known[left]) / width, 0.0, 1.0)
        between = heights[left] + part * (heights[left + 1] - heights[left])
        result = np.where(below >= last, 1.0, np.where(below < 0, 0.0, between))
        return np.where(tokens < 1, 0.0, result)


def parse_law(text: str, option: str) -> LengthLaw:
    """Read a law as written; :class:`TraceError` names the choices."""
    if text.strip().isascii() and text.strip().isdecimal():
        if 1 <= int(text) <= MOST_TOKENS:
            return Fixed(int(text))
    elif match := _LOGNORMAL.fullmatch(text):
        mean, sigma = float(match[1]), float(match[2])
        if 1 <= mean <= MOST_TOKENS and sigma <= 10:
            return LogNormal(mean, sigma)
    elif match := _TABLE.fullmatch(text):
        return _read_table(Path(match[1]))
    raise TraceError(f"{option} is {text!r}; choices: {CHOICES}")


def _read_table(path: Path) -> QuantileTable:
    """Read pairs [tokens, probability]; those after the first with probability 1 say no more."""
    try:
        pairs: Any = parse_json(path.read_text("utf-8"))
        points = [(float(probability), float(tokens)) for tokens, probability in pairs]
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, TypeError, OverflowError):
        raise TraceError(f"{path}: this is no JSON list of pairs [tokens, probability]") from None
    if not points or points[0][0] > 0:
        points.insert(0, (0.0, 0.0))
    whole = next((place for place, point in enumerate(points) if point[0] >= 1), len(points))
    points = points[: whole + 1]
    try:
        return QuantileTable(tuple(p for p, _ in points), tuple(t for _, t in points))
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None


def distance(lengths: NDArray[np.int64], law: LengthLaw) -> float:
    """Kolmogorov-Smirnov distance of lengths from a law: the largest gap between the two curves.

    Both are steps at whole numbers, so the gap is looked for there, and just before each step.
    """
    values, counts = np.unique(lengths, return_counts=True)
    upto = np.cumsum(counts) / len(lengths)
    before = np.concatenate([[0.0], upto[:-1]])
    at = np.abs(upto - law.distribution(values)).max()
    ahead = np.abs(before - law.distribution(values - 1)).max()
    return float(max(at, ahead))
