"""Answer lengths for files that have none: ``N``, ``lognormal(..)``, ``uniform(a,b)``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.common.arguments import check_text
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAX_TOKENS: Final = 2**31 - 1
_MOST_SIGMA: Final = 10
_COUNT: Final = re.compile(r"\s*([0-9]{1,10})\s*")
_NUMBER: Final = r"\s*([0-9]{1,10}(?:\.[0-9]{1,9})?)\s*"
_LOGNORMAL: Final = re.compile(rf"\s*lognormal\(\s*mean\s*={_NUMBER},\s*sigma\s*={_NUMBER}\)\s*")
_UNIFORM: Final = re.compile(r"\s*uniform\(\s*([0-9]{1,10})\s*,\s*([0-9]{1,10})\s*\)\s*")
CHOICES: Final = (
    "a whole number from 1, lognormal(mean=M,sigma=S) with the mean M tokens of the answers and "
    "the standard deviation S of their logarithm, and uniform(A,B) with 1 <= A <= B"
)


@dataclass(frozen=True, slots=True)
class OutputRule:
    """A law of answer lengths: ``kind`` is ``fixed``, ``lognormal`` or ``uniform``."""

    kind: str
    first: float
    second: float = 0.0

    @classmethod
    def parse(cls, text: str) -> OutputRule:
        """Read one; :class:`TraceError` names the choices."""
        check_text("--output-tokens", text, "256")
        rule = None
        if match := _COUNT.fullmatch(text):
            rule = cls("fixed", int(match[1]))
        elif match := _LOGNORMAL.fullmatch(text):
            rule = cls("lognormal", float(match[1]), float(match[2]))
        elif match := _UNIFORM.fullmatch(text):
            rule = cls("uniform", int(match[1]), int(match[2]))
        if rule is None or not 1 <= rule.first <= _MAX_TOKENS:
            raise TraceError(f"--output-tokens is {text!r}; choices: {CHOICES}")
        least, most = (rule.first, _MAX_TOKENS) if rule.kind == "uniform" else (0, _MOST_SIGMA)
        if not least <= rule.second <= most:
            raise TraceError(f"--output-tokens is {text!r}; choices: {CHOICES}")
        return rule

    def __str__(self) -> str:
        if self.kind == "fixed":
            return f"{self.first:.0f}"
        if self.kind == "uniform":
            return f"uniform({self.first:.0f},{self.second:.0f})"
        return f"lognormal(mean={self.first:g},sigma={self.second:g})"

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw ``count`` lengths of at least 1 token."""
        if self.kind == "fixed":
            return np.full(count, int(self.first), dtype=np.int64)
        if self.kind == "uniform":
            return rng.integers(int(self.first), int(self.second), count, endpoint=True)
        log_mean = math.log(self.first) - self.second**2 / 2
        lengths = np.rint(rng.lognormal(log_mean, self.second, count))
        return np.clip(lengths, 1, _MAX_TOKENS).astype(np.int64)
