"""Closed loops: which requests wait for an answer before they are sent, and how long after it.

A *recorded* replay is open: requests come at their recorded times however slow the server is; only
turns without a time of their own wait for the answer before. In a *closed* one every turn does:
it comes its think time after the end of the answer it follows. The think time is the recorded one
(``delay_ns``), else drawn from a law that the user names.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kvsim.traces.adjust.output_ids import parents_of
from kvsim.traces.common.arguments import check_text
from kvsim.traces.common.text import counted
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.trace.trace import MorePredecessors, Trace

_UNITS_NS: Final = {"ms": 10**6, "s": 10**9, "min": 60 * 10**9}
_LONGEST_NS: Final = 2**62 // 1000  # 53 days; in ps it fits 64 bits, and so does what follows it
_TIME: Final = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(ms|s|min)"
_FIXED: Final = re.compile(rf"\s*{_TIME}\s*")
_EXPONENTIAL: Final = re.compile(rf"\s*exponential\(\s*mean\s*=\s*{_TIME}\s*\)\s*")
_LOGNORMAL: Final = re.compile(
    rf"\s*lognormal\(\s*mean\s*=\s*{_TIME}\s*,\s*sigma\s*=\s*([0-9](?:\.[0-9]{{1,9}})?)\s*\)\s*"
)
CHOICES: Final = (
    "a time such as 5s or 500ms (up to 53 days), exponential(mean=5s), lognormal(mean=5s,sigma=1) "
    "with the standard deviation of the logarithm"
)


def parse_duration_ns(text: str) -> int | None:
    """Read a time such as ``5s``, ``500ms`` or ``2.5 min``; None for what is none."""
    match = _FIXED.fullmatch(text)
    return None if match is None else _ns(match)


def _ns(match: re.Match[str]) -> int:
    return round(Decimal(match[1]) * _UNITS_NS[match[2]])


@dataclass(frozen=True, slots=True)
class ThinkRule:
    """A law of think times: ``kind`` is ``fixed``, ``exponential`` or ``lognormal``."""

    kind: str
    mean_ns: int
    sigma: float = 0.0

    @classmethod
    def parse(cls, text: str) -> ThinkRule:
        """Read one; :class:`TraceError` names the choices."""
        check_text("--think-time", text, "5s")
        for kind, pattern in (
            ("fixed", _FIXED),
            ("exponential", _EXPONENTIAL),
            ("lognormal", _LOGNORMAL),
        ):
            if match := pattern.fullmatch(text):
                mean_ns = _ns(match)
                if mean_ns > _LONGEST_NS:
                    break
                return cls(kind, mean_ns, float(match[3]) if kind == "lognormal" else 0.0)
        raise TraceError(f"--think-time is {text!r}; choices: {CHOICES}")

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw ``count`` think times in ns."""
        if self.kind == "fixed":
            return np.full(count, self.mean_ns, dtype=np.int64)
        if self.kind == "exponential":
            times_ns = rng.exponential(self.mean_ns, count)
        else:
            log_mean = math.log(max(self.mean_ns, 1)) - self.sigma**2 / 2
            times_ns = rng.lognormal(log_mean, self.sigma, count)
        return np.minimum(np.rint(times_ns), _LONGEST_NS).astype(np.int64)


class FollowOns(NamedTuple):
    """For each request the one whose answer it waits for (-1: it waits for none).

    Where ``also_after`` names others, a request that waits at all waits for those, too.

    ``parent``, ``delay_ns``: int64, shape ``(n,)``; the delay runs from the end of the answer. Of
    requests that wait for none it is the pause of a user between the session before and this one.
    ``num_drawn`` of the delays are not the trace's.
    """

    parent: NDArray[np.int64]
    delay_ns: NDArray[np.int64]
    num_drawn: int = 0
    also_after: MorePredecessors | None = None

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return who waits and for whose answer: each pair once, in order of who waits."""
        waiting = np.flatnonzero(self.parent >= 0)
        answers = self.parent[waiting]
        if self.also_after is None:
            return waiting, answers
        owners = np.repeat(np.arange(len(self.parent)), np.diff(self.also_after.offsets))
        really = self.parent[owners] >= 0
        others = np.stack([owners[really], self.also_after.requests[really]])
        pairs = np.concatenate([np.stack([waiting, answers]), others], axis=1)
        waiting, answers = np.unique(pairs, axis=1)
        return waiting, answers

    def note(self) -> str:
        """Say who waits."""
        waiting = int(np.count_nonzero(self.parent >= 0))
        of = f"of {counted(len(self.parent), 'request')}"
        text = f"closed loop: {counted(waiting, f'{of} waits', f'{of} wait')} for an output"
        drawn = (
            f", {counted(self.num_drawn, 'think time is', 'think times are')} drawn"
            if self.num_drawn
            else ""
        )
        return text + drawn


def nobody_follows(num_requests: int) -> FollowOns:
    """Every request comes at its own time."""
    parent = np.full(num_requests, -1, dtype=np.int64)
    return FollowOns(parent, np.zeros(num_requests, dtype=np.int64))


def follow_ons(
    trace: Trace,
    *,
    closed: bool = False,
    users: bool = False,
    think: ThinkRule | None = None,
    rng: np.random.Generator | None = None,
) -> FollowOns | None:
    """Who waits for whom, or ``None`` where every request comes at its own time.

    ``closed`` makes every turn wait that follows another, ``users`` too; users pause by ``think``
    (0 without it) between two sessions.

    Raises
    ------
    TraceError
        A turn waits for an answer, but neither the trace nor ``think`` says how long after it; or
        ``think`` has nothing to say, or nobody follows anybody.
    """
    parent = parents_of(trace)
    if not (closed or users) and trace.has_time is not None:
        parent = np.where(trace.has_time, -1, parent)
    waits = parent >= 0
    if not users and not (waits.any() and (closed or trace.has_time is not None)):
        _check_open(trace, closed=closed, think=think)
        return None
    delay_ns, known = _recorded_delays(trace)
    missing = waits & ~known
    if missing.any() and think is None:
        first = trace.request_id(int(np.flatnonzero(missing)[0]))
        raise TraceError(
            f"{trace.name}: {counted(int(missing.sum()), 'turn waits', 'turns wait')} for an "
            "output "
            f"(first: {first}), but the trace has no think time for it: give "
            f"--think-time ({CHOICES})"
        )
    delay_ns[~waits] = 0
    num_drawn = 0
    if think is not None:
        drawn = missing | ~waits if users else missing
        num_drawn = int(drawn.sum())
        if not num_drawn:
            raise TraceError(
                f"{trace.name}: --think-time is for think times that the trace does not record, "
                "and this trace records all of them: leave it out"
            )
        generator = rng if rng is not None else np.random.default_rng(0)
        delay_ns[drawn] = think.draw(num_drawn, generator)
    return FollowOns(parent, delay_ns, num_drawn, trace.also_after)


def _recorded_delays(trace: Trace) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the delays after outputs, and which of them the trace records."""
    delay_ns = np.zeros(len(trace), dtype=np.int64)
    known = np.zeros(len(trace), dtype=np.bool_)
    if trace.delay_ns is not None:
        known = trace.delay_ns >= 0
        if trace.after_request is not None:
            known &= trace.after_request >= 0
        delay_ns[known] = trace.delay_ns[known]
    return delay_ns, known


def _check_open(trace: Trace, *, closed: bool, think: ThinkRule | None) -> None:
    """Raise TraceError if the user asked for a closed loop and no request waits."""
    if closed:
        raise TraceError(
            f"{trace.name}: --arrivals closed needs turns that follow each other (sessions or "
            f"after_request), and the trace has none: use the recorded times, or close the "
            f"loop with --users N"
        )
    if think is not None:
        raise TraceError(
            f"{trace.name}: --think-time is for closed loops, and here each request arrives at its "
            "recorded time: add --arrivals closed or --users N, or leave it out"
        )
