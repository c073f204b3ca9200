"""What each of some requests went through, as slices that add up to its stay in the engine.

    arrival     admission            preempted at       admission              last token
       |  queued  | between | prefill | decode | preempted | prefill |  decode  |
                    chunks                       or swapped

``queued``, ``preempted`` and ``swapped`` know how long the queue's head waited for what meanwhile
(``queue_clock.CAUSES``); ``prefill`` is one slice a chunk; ``decode`` one slice between
preemptions, steps that it shares with others' prefill included; ``between chunks`` the time in the
engine in which neither happens. A run of any length leaves at most about ``MAX_SLICES`` slices:
where there are more requests than are drawn, these are evenly spread over the trace, and where one
request has more slices than its part of them, what follows is one slice ``not drawn``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.sim.engine.listener import ABORT
from kvsim.sim.engine.observer import Observer
from kvsim.sim.recording.waiting_clock import CAUSES

if TYPE_CHECKING:
    from kvsim.sim.engine.observer import Chunk, EngineView
    from kvsim.sim.recording.recorder import Recorder
    from kvsim.traces.trace.trace import Trace

DEFAULT_REQUESTS: Final = 2_000
MAX_SLICES: Final = 150_000
FEWEST_SLICES: Final = 16
"""Of a request, however many are drawn."""

QUEUED: Final = "queued"
BETWEEN: Final = "between chunks"
PREFILL: Final = "prefill"
DECODE: Final = "decode"
PREEMPTED: Final = "preempted"
SWAPPED: Final = "swapped"
NOT_DRAWN: Final = "not drawn"
_WAITS: Final = (QUEUED, PREEMPTED, SWAPPED)


class Slice(NamedTuple):
    """A stretch of a request's life; ``details`` are numbers by name (ps, tokens)."""

    kind: str
    start_ps: int
    end_ps: int
    details: dict[str, int]


class Moment(NamedTuple):
    """Something that happens at once: ``first token``, ``finish``, ``abort``, ``refusal: why``."""

    name: str
    at_ps: int
    details: dict[str, int]


@dataclass(slots=True)
class Track:
    """One request; ``kind`` is what it does since ``since_ps`` (of the part not in ``slices``)."""

    index: int
    arrival_ps: int
    kind: str = QUEUED
    since_ps: int = 0
    busy_ps: int = 0
    num_computed_tokens: int = 0
    hit_tokens: int = 0
    first_token_ps: int = -1
    prompt_tokens: int = 0
    clock: list[int] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    moments: list[Moment] = field(default_factory=list)
    done: bool = False

    def close(self, end_ps: int, details: dict[str, int] | None = None) -> None:
        """End what it does now, if that took any time."""
        if end_ps > self.since_ps:
            self.slices.append(Slice(self.kind, self.since_ps, end_ps, details or {}))
            self.since_ps = end_ps


class Timeline(Observer):
    """Observes at most ``most`` requests, evenly over the trace; ``tracks`` are theirs, by index.

    ``trace`` is the one the engine sees, once it runs.
    """

    def __init__(self, most: int = DEFAULT_REQUESTS) -> None:
        self.tracks: dict[int, Track] = {}
        self.trace: Trace | None = None
        self._most_requests = most
        self._wanted: set[int] = set()
        self._most_slices = MAX_SLICES
        self._clock = [0] * len(CAUSES)  # time under each cause, up to the last plan
        self._plan_ps = 0
        self._cause = 0
        self._due: list[Track] = []  # put out at a time to come

    # ---- what the engine tells -------------------------------------------------------------

    def begins(self, trace: Trace, recorder: Recorder) -> None:
        """Choose the requests to draw."""
        self.trace = trace
        self._wanted = set(chosen(len(trace), self._most_requests))
        self._most_slices = max(MAX_SLICES // max(len(self._wanted), 1), FEWEST_SLICES)

    def arrived(self, index: int, now_ps: int) -> None:
        """Begin a request's track."""
        if index in self._wanted:
            clock = self._clock_at(now_ps)
            self.tracks[index] = Track(index, now_ps, since_ps=now_ps, clock=clock)

    def entered(self, index: int, now_ps: int, hit_tokens: int) -> None:
        """End a wait."""
        track = self._open(index)
        if track is None or track.kind == NOT_DRAWN:
            return
        if track.kind == QUEUED:
            track.hit_tokens = hit_tokens
        details = self._waited(track, now_ps)
        if hit_tokens:
            details["hit_tokens"] = hit_tokens
        track.close(now_ps, details)
        track.kind, track.num_computed_tokens = BETWEEN, hit_tokens

    def served(self, index: int, chunk: Chunk) -> None:
        """Draw a chunk; the first decode, or the first token, begins a decode."""
        track = self._open(index)
        if track is None:
            return
        track.busy_ps = chunk.end_ps
        if track.kind == DECODE:
            return
        if len(track.slices) >= self._most_slices:
            track.kind = NOT_DRAWN
        if track.kind != NOT_DRAWN:
            track.close(chunk.start_ps)
            track.kind, track.num_computed_tokens = DECODE, chunk.past
            if not chunk.decodes:
                self._prefill(track, chunk)
        if chunk.samples and track.first_token_ps < 0:
            track.first_token_ps = chunk.end_ps
            track.prompt_tokens = chunk.past + chunk.num_tokens

    def preempted(
        self, index: int, now_ps: int, *, num_computed_tokens: int, swapped: bool
    ) -> None:
        """End what a victim does, once no step in flight serves it any more."""
        track = self._open(index)
        if track is None:
            return
        out_ps = max(now_ps, track.busy_ps)
        if track.kind != NOT_DRAWN:
            track.close(out_ps, _decoded(track, num_computed_tokens + 1))
            track.kind, track.since_ps = SWAPPED if swapped else PREEMPTED, out_ps
        track.clock = []
        self._due.append(track)

    def planned(self, engine: EngineView, now_ps: int) -> None:
        """From here on the queue's head waits for another cause."""
        if self._due:
            for track in self._due:
                if track.since_ps <= now_ps:
                    track.clock = track.clock or self._clock_at(track.since_ps)
            self._due = [track for track in self._due if not track.clock]
        self._clock[self._cause] += now_ps - self._plan_ps
        self._plan_ps, self._cause = now_ps, CAUSES.index(engine.cause)

    def finished(self, index: int, now_ps: int, output_tokens: int) -> None:
        """End a track with its last token."""
        track = self._open(index)
        if track is not None:
            details = {"output_tokens": output_tokens, "hit_tokens": track.hit_tokens}
            num_tokens = track.prompt_tokens + output_tokens
            self._end(track, now_ps, Moment("finish", now_ps, details), _decoded(track, num_tokens))

    def withdrawn(self, index: int, now_ps: int, why: str) -> None:
        """End a track where its request leaves unfinished."""
        track = self._open(index)
        if track is not None:
            name = "abort" if why == ABORT else f"refusal: {why}"
            self._end(track, now_ps, Moment(name, now_ps, {}))

    def ends(self, now_ps: int) -> None:
        """End all that is open: the run is over."""
        for track in self.tracks.values():
            if not track.done:
                self._end(track, max(now_ps, track.arrival_ps))

    # ---- parts -----------------------------------------------------------------------------

    def _open(self, index: int) -> Track | None:
        track = self.tracks.get(index)
        return None if track is None or track.done else track

    def _prefill(self, track: Track, chunk: Chunk) -> None:
        track.kind = PREFILL
        track.close(chunk.end_ps, {"tokens": chunk.num_tokens, "computed_before": chunk.past})
        track.num_computed_tokens = chunk.past + chunk.num_tokens
        track.kind = DECODE if chunk.samples else BETWEEN

    def _end(
        self,
        track: Track,
        now_ps: int,
        moment: Moment | None = None,
        details: dict[str, int] | None = None,
    ) -> None:
        """Close a track; of a step that the client does not wait for, the part before stays."""
        track.done = True
        track.close(now_ps, self._waited(track, now_ps) if track.kind in _WAITS else details)
        track.slices = [
            one._replace(end_ps=min(one.end_ps, now_ps))
            for one in track.slices
            if one.start_ps < now_ps
        ]
        if 0 <= track.first_token_ps <= now_ps:
            track.moments.append(Moment("first token", track.first_token_ps, {}))
        if moment is not None:
            track.moments.append(moment)

    def _waited(self, track: Track, now_ps: int) -> dict[str, int]:
        """Time of a wait by cause."""
        if not track.clock or now_ps <= track.since_ps:
            return {}
        clock = self._clock_at(now_ps)
        waits = zip(CAUSES, track.clock, clock, strict=True)
        return {cause: late - early for cause, early, late in waits if late > early}

    def _clock_at(self, time_ps: int) -> list[int]:
        """Time under each cause up to ``time_ps``, not before the last plan."""
        clock = self._clock.copy()
        clock[self._cause] += time_ps - self._plan_ps
        return clock


def _decoded(track: Track, num_tokens: int) -> dict[str, int]:
    """Tokens of the decode being closed; ``num_tokens``: of the request, at its end."""
    return {"tokens": num_tokens - track.num_computed_tokens - 1} if track.kind == DECODE else {}


def chosen(num_requests: int, most: int) -> range | list[int]:
    """Indices of at most ``most`` requests, evenly over all."""
    if most >= num_requests:
        return range(num_requests)
    return [place * num_requests // most for place in range(most)]
