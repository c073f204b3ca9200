"""Arrival times drawn at random: the gaps between requests by one law, from one generator.

``rate`` is evenly spaced, ``poisson`` exponential, ``gamma(cv=..)`` and ``weibull(shape=..)``
burstier or smoother. All have the mean gap ``1 / rate``; the first arrival is at 0.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.common.arguments import check_text
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_NS_PER_S: Final = 10**9
_LATEST_NS: Final = 2**62 // 1000
_STREAM_GAPS: Final = 1 << 10
_CALL: Final = re.compile(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*")
_KINDS: Final = {"rate": None, "poisson": None, "gamma": "cv", "weibull": "shape"}
"""Law -> its own parameter."""
CHOICES: Final = (
    "recorded, rate=R, poisson, gamma(cv=X), weibull(shape=X); R is requests per second (also "
    "inside: poisson(rate=R), or as --rate R), X is above 0"
)
_RANGES: Final = {"cv": (0.001, 100.0), "shape": (0.01, 1000.0)}
"""Beyond them floats can no longer tell gaps apart, or say how long they are."""


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
        """Read ``poisson``, ``gamma(cv=2)``, ``rate=3.5``; the error names the choices."""
        check_text(option, text, "poisson(rate=3)")
        kind, _, value = text.partition("=")
        if kind.strip() == "rate" and value:
            return cls("rate", _positive(text, value, option))
        match = _CALL.fullmatch(text)
        if match is None or match[1] not in _KINDS or match[1] == "rate":
            raise TraceError(f"{option} is {text!r}; choices: {CHOICES}")
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
                raise TraceError(f"{option} is {text!r}: {name!r} is unknown; choices: {CHOICES}")
        if own is not None and own not in named:
            raise TraceError(f"{option} is {text!r}: {own} is missing; choices: {CHOICES}")
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
        """Draw ``count`` arrival times from 0 on, non-decreasing, in ns.

        Raises
        ------
        TraceError
            The last would be later than the engine's clock can say.
        """
        if self.kind == "rate":
            assert self.rate_per_s is not None, "no rate to space requests at"
            times_s = np.arange(count) / self.rate_per_s
        else:
            times_s = np.concatenate([[0.0], np.cumsum(self.gaps_s(max(count - 1, 0), rng))])
        return _to_ns(times_s[:count], self)

    def stream_ns(self, rng: np.random.Generator) -> Iterator[int]:
        """Yield arrival times from 0 on without end."""
        start_s = 0.0
        while True:
            times_s = start_s + np.cumsum(self.gaps_s(_STREAM_GAPS, rng))
            yield from _to_ns(np.concatenate([[start_s], times_s[:-1]]), self).tolist()
            start_s = float(times_s[-1])


def arrival_rule(arrivals: str | None, rate: str | float | None) -> ArrivalRule | None:
    """Put ``--arrivals`` and ``--rate`` together; None = the recorded times.

    ``--rate`` alone spaces requests evenly; beside a law it says the rate.
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
        raise TraceError("--arrivals recorded and --rate contradict: leave one of them out")
    if rule is None:
        return ArrivalRule("rate", given)
    if rule.rate_per_s not in (None, given):
        raise TraceError(f"--rate is {rate} and --arrivals says {rule}: leave one of them out")
    return replace(rule, rate_per_s=given)


def session_start_rule(starts: str | None, rate: str | float | None) -> ArrivalRule | None:
    """Put ``--session-starts`` and ``--session-rate`` together; a rate alone is Poisson."""
    rule = None if starts is None else ArrivalRule.parse(starts, "--session-starts")
    if rate is None:
        return rule
    given = _positive(str(rate), str(rate), "--session-rate")
    rule = rule or ArrivalRule("poisson")
    if rule.rate_per_s not in (None, given):
        raise TraceError(
            f"--session-rate is {rate} and --session-starts says {rule}: leave one out"
        )
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
            f"arrivals by {rule} reach {times_s[-1]:.3g} s; at most {_LATEST_NS // _NS_PER_S} s "
            "can be simulated: raise the rate"
        )
    return np.round(times_s * _NS_PER_S).astype(np.int64)
