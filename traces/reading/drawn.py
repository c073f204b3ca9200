"""Arrival times and output lengths that kvsim draws because the file has none.

One seeded generator draws the gaps between requests from one law: ``rate=..``, ``poisson(..)``,
``gamma(..)`` or ``weibull(..)``. Output lengths are ``N``, ``lognormal(..)`` or ``uniform(a,b)``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.common.arguments import check_text
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from kvsim.traces.reading.wishes import Wishes
    from kvsim.traces.trace.receipt import Receipt


_NS_PER_S: Final = 10**9
_LATEST_NS: Final = 2**62 // 1000
_STREAM_GAPS: Final = 1 << 10
_CALL: Final = re.compile(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*")
_KINDS: Final = {"rate": None, "poisson": None, "gamma": "cv", "weibull": "shape"}
"""Law -> name of its parameter."""
_ARRIVAL_CHOICES: Final = (
    "recorded, rate=R, poisson, gamma(cv=X), weibull(shape=X); R is requests per second (also "
    "inside: poisson(rate=R), or as --rate R), X is above 0"
)
_RANGES: Final = {"cv": (0.001, 100.0), "shape": (0.01, 1000.0)}
"""Beyond these ranges floats cannot distinguish the gaps, or cannot represent their lengths."""


@dataclass(frozen=True, slots=True)
class ArrivalRule:
    """One law of gaps.

    Attributes
    ----------
    kind
        ``rate``, ``poisson``, ``gamma`` or ``weibull``.
    rate_per_s
        Requests per second; None = that of the recorded times.
    parameter
        ``cv`` of gamma (standard deviation over mean of the gaps), ``shape`` of Weibull.
    """

    kind: str
    rate_per_s: float | None = None
    parameter: float = 1.0

    @classmethod
    def parse(cls, text: str, option: str = "--arrivals") -> ArrivalRule:
        """Parse ``poisson``, ``gamma(cv=2)`` or ``rate=3.5``; the error lists the choices."""
        check_text(option, text, "poisson(rate=3)")
        kind, _, value = text.partition("=")
        if kind.strip() == "rate" and value:
            return cls("rate", _positive(text, value, option))
        match = _CALL.fullmatch(text)
        if match is None or match[1] not in _KINDS or match[1] == "rate":
            raise TraceError(f"{option} is {text!r}; choices: {_ARRIVAL_CHOICES}")
        rule, own = cls(match[1]), _KINDS[match[1]]
        named = set()
        for part in (match[2] or "").split(",") if match[2] else ():
            name, _, value = part.partition("=")
            name = name.strip()
            named.add(name)
            if name == "rate":
                rule = replace(rule, rate_per_s=_positive(text, value, option))
            elif own is not None and name == own:
                rule = replace(rule, parameter=_within(text, name, value, option))
            else:
                raise TraceError(
                    f"{option} is {text!r}: {name!r} is unknown; choices: {_ARRIVAL_CHOICES}"
                )
        if own is not None and own not in named:
            raise TraceError(f"{option} is {text!r}: {own} is missing; choices: {_ARRIVAL_CHOICES}")
        return rule

    def at(self, rate_per_s: float) -> ArrivalRule:
        """Return the same law with this rate."""
        return replace(self, rate_per_s=rate_per_s)

    def __str__(self) -> str:
        if self.kind == "rate" and self.rate_per_s is not None:
            return f"rate={self.rate_per_s:g}"
        own = _KINDS[self.kind]
        inside = [] if own is None else [f"{own}={self.parameter:g}"]
        if self.rate_per_s is not None:
            inside.append(f"rate={self.rate_per_s:g}")
        return f"{self.kind}({', '.join(inside)})" if inside else self.kind

    def gaps_s(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw ``count`` gaps in seconds; the rate must be set."""
        assert self.rate_per_s is not None, "no rate to draw gaps at"
        mean = 1 / self.rate_per_s
        if self.kind == "rate":
            return np.full(count, mean)
        if self.kind == "poisson":
            return rng.exponential(mean, count)
        if self.kind == "gamma":
            shape = 1 / self.parameter**2
            return rng.gamma(shape, mean / shape, count)
        scale = mean / math.gamma(1 + 1 / self.parameter)
        return scale * rng.weibull(self.parameter, count)

    def times_ns(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw ``count`` non-decreasing arrival times in ns; the first is 0.

        Raises
        ------
        TraceError
            The last time exceeds the range of the engine's clock.
        """
        if self.kind == "rate":
            assert self.rate_per_s is not None, "no rate to space requests at"
            times_s = np.arange(count) / self.rate_per_s
        else:
            times_s = np.concatenate([[0.0], np.cumsum(self.gaps_s(max(count - 1, 0), rng))])
        return _to_ns(times_s[:count], self)

    def stream_ns(self, rng: np.random.Generator) -> Iterator[int]:
        """Yield an endless sequence of arrival times in ns, from 0."""
        start_s = 0.0
        while True:
            times_s = start_s + np.cumsum(self.gaps_s(_STREAM_GAPS, rng))
            yield from _to_ns(np.concatenate([[start_s], times_s[:-1]]), self).tolist()
            start_s = float(times_s[-1])


def arrival_rule(arrivals: str | None, rate: str | float | None) -> ArrivalRule | None:
    """Combine ``--arrivals`` and ``--rate`` into one rule; None = the recorded times.

    ``--rate`` alone spaces requests evenly; with a law it is the rate of the law.
    """
    rule = None
    if arrivals is not None:
        check_text("--arrivals", arrivals, "poisson(rate=3)")
    if arrivals is not None and arrivals.strip() != "recorded":
        rule = ArrivalRule.parse(arrivals)
    if rate is None:
        return rule
    given = _positive(str(rate), str(rate), "--rate")
    if arrivals is not None and rule is None:
        raise TraceError("--arrivals recorded contradicts --rate: leave one of them out")
    if rule is None:
        return ArrivalRule("rate", given)
    if rule.rate_per_s not in (None, given):
        raise TraceError(f"--rate is {rate} and --arrivals is {rule}: leave one of them out")
    return replace(rule, rate_per_s=given)


def session_start_rule(starts: str | None, rate: str | float | None) -> ArrivalRule | None:
    """Combine ``--session-starts`` and ``--session-rate``; a rate alone means Poisson."""
    rule = None if starts is None else ArrivalRule.parse(starts, "--session-starts")
    if rate is None:
        return rule
    given = _positive(str(rate), str(rate), "--session-rate")
    rule = rule or ArrivalRule("poisson")
    if rule.rate_per_s not in (None, given):
        raise TraceError(f"--session-rate is {rate} and --session-starts is {rule}: leave one out")
    return rule.at(given)


def _positive(text: str, value: str, option: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (0 < number < math.inf):
        raise TraceError(f"{option} is {text!r}: {value.strip()!r} is not a number above 0")
    return number


def _within(text: str, name: str, value: str, option: str) -> float:
    number = _positive(text, value, option)
    low, high = _RANGES[name]
    if not low <= number <= high:
        raise TraceError(
            f"{option} is {text!r}: {name} is {number:g}; allowed are numbers from {low:g} to "
            f"{high:g}"
        )
    return number


def _to_ns(times_s: NDArray[np.float64], rule: ArrivalRule) -> NDArray[np.int64]:
    if len(times_s) and not times_s[-1] * _NS_PER_S < _LATEST_NS:
        raise TraceError(
            f"the last arrival by {rule} is at {times_s[-1]:.3g} s; kvsim simulates at most "
            f"{_LATEST_NS // _NS_PER_S} s: raise the rate"
        )
    return np.round(times_s * _NS_PER_S).astype(np.int64)


_MAX_TOKENS: Final = 2**31 - 1
_MOST_SIGMA: Final = 10
_COUNT: Final = re.compile(r"\s*([0-9]{1,10})\s*")
_NUMBER: Final = r"\s*([0-9]{1,10}(?:\.[0-9]{1,9})?)\s*"
_LOGNORMAL: Final = re.compile(rf"\s*lognormal\(\s*mean\s*={_NUMBER},\s*sigma\s*={_NUMBER}\)\s*")
_UNIFORM: Final = re.compile(r"\s*uniform\(\s*([0-9]{1,10})\s*,\s*([0-9]{1,10})\s*\)\s*")
_OUTPUT_CHOICES: Final = (
    "a whole number from 1, lognormal(mean=M,sigma=S) with the mean output length M in tokens and "
    "the standard deviation S of its logarithm, and uniform(A,B) with 1 <= A <= B"
)


@dataclass(frozen=True, slots=True)
class OutputRule:
    """Law of output lengths: ``kind`` is ``fixed``, ``lognormal`` or ``uniform``."""

    kind: str
    first: float
    second: float = 0.0

    @classmethod
    def parse(cls, text: str) -> OutputRule:
        """Parse a law; :class:`TraceError` lists the choices."""
        check_text("--output-tokens", text, "256")
        rule = None
        if match := _COUNT.fullmatch(text):
            rule = cls("fixed", int(match[1]))
        elif match := _LOGNORMAL.fullmatch(text):
            rule = cls("lognormal", float(match[1]), float(match[2]))
        elif match := _UNIFORM.fullmatch(text):
            rule = cls("uniform", int(match[1]), int(match[2]))
        if rule is None or not 1 <= rule.first <= _MAX_TOKENS:
            raise TraceError(f"--output-tokens is {text!r}; choices: {_OUTPUT_CHOICES}")
        least, most = (rule.first, _MAX_TOKENS) if rule.kind == "uniform" else (0, _MOST_SIGMA)
        if not least <= rule.second <= most:
            raise TraceError(f"--output-tokens is {text!r}; choices: {_OUTPUT_CHOICES}")
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


def draw_times(
    receipt: Receipt,
    wishes: Wishes,
    columns: Mapping[str, NDArray[Any]],
    arrival_ns: NDArray[np.int64],
    time_unit: str,
    *,
    has_times: bool,
) -> tuple[NDArray[np.int64], str]:
    """Return arrival times by the requested law, or ``arrival_ns`` without a law, and their unit.

    Raises
    ------
    TraceError
        Requests follow each other, or neither the law nor the file has a rate.
    """
    rule = wishes.arrivals
    if rule is None:
        receipt.has_times = has_times
        return arrival_ns, time_unit
    if "after_request" in columns and (columns["after_request"] >= 0).any():
        raise TraceError(
            f"{receipt.path}: --arrivals {rule} draws the time of each request independently, but "
            "requests of this trace follow each other; keep the recorded times (--rate-scale "
            "changes their rate)"
        )
    if rule.rate_per_s is None:
        span_ns = int(arrival_ns[-1])
        if not has_times or not span_ns:
            raise TraceError(
                f"{receipt.path}: --arrivals {rule} needs a rate, but the file's times give none: "
                "add --rate R (requests per second)"
            )
        rule = rule.at((len(arrival_ns) - 1) * 10**9 / span_ns)
    receipt.notes.append(f"arrival times drawn by {rule}; the times of the file are not used")
    receipt.epoch = None
    return rule.times_ns(len(arrival_ns), wishes.rngs[0]), f"ns, drawn by {rule}"
