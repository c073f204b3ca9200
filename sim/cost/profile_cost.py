"""The calibrated step cost: a few affine terms with one ``max`` each, in integers.

::

    step = host part:    o0 + o1*R
           device part:  G(N) + attention + all-reduce(N) + H(R)

    N = tokens, R = requests in the step, B = decodes, T = sum of their contexts
    G(N), H(R) = max of affine pieces (or a table, linear between knots): layers, head;
                 the last piece may also pay for each started tile of tokens
    decode     = a0 + a1*B + a2*T                       (no prefill in the step)
    mixed      = P + m1*B + m2*T                        (c = chunk, p = past, summed below)
    P          = max(p0 + p1*sum(p + c) + p5*prefills + p6*sum(p),
                     p2 + p3*sum(c) + p4*sum(c*p + c*c/2))

Several prefills of a step are one call, so they share its floor: on 51 calls of 2-64 requests in
each of three public tables (docs/validation.md) the sum of single calls is 69-109 % too slow at the
median.

Parts of a step (:mod:`kvsim.sim.recording.step_parts`): G, all-reduce and head are ``weights``,
decode is ``kv``, mixed is ``prefill``.

    copy       = 2 * KV bytes of a token / bandwidth of the card, per copied token

A synchronous engine pays host + device, an asynchronous one the larger of the two. Layers are
folded in and every coefficient is rounded once, to whole picoseconds (area: femtoseconds), so that
k decode steps last exactly ``k*a + b*k*(k-1)/2``: only T moves in a run of decodes, and the cost is
affine in T.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.sim.cost.step_cost import NO_STEP, DecodeRun, StepTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.cost.profile import MeasuredRanges

FS_PER_PS = 1000
_new: Final = tuple.__new__  # a named tuple's own constructor takes twice as long


class TokenCost(NamedTuple):
    """Integer form of :class:`kvsim.sim.cost.profile.TokenTerm`: ps by tokens (head: requests)."""

    pieces: tuple[tuple[int, int], ...]
    knots: tuple[tuple[int, int], ...] = ()
    tile_tokens: int = 1
    per_tile_ps: int = 0

    def at(self, num_tokens: int) -> int:
        """Duration in ps."""
        if self.knots:
            return self._between(num_tokens)
        best = value = 0
        for base_ps, per_token_ps in self.pieces:
            value = base_ps + per_token_ps * num_tokens
            if value > best:  # noqa: PLR1730 - max() takes three times as long
                best = value
        if self.per_tile_ps:
            value += self.per_tile_ps * -(-num_tokens // self.tile_tokens)
            return max(best, value)
        return best

    def later(self, ps: int) -> TokenCost:
        """Return the same cost with ``ps`` added."""
        return self._replace(
            pieces=tuple((base_ps + ps, per_token_ps) for base_ps, per_token_ps in self.pieces),
            knots=tuple((num_tokens, at_ps + ps) for num_tokens, at_ps in self.knots),
        )

    def _between(self, num_tokens: int) -> int:
        knots = self.knots
        if num_tokens <= knots[0][0]:
            return knots[0][1]
        right = min(bisect_right(knots, (num_tokens,)), len(knots) - 1)
        (x0, y0), (x1, y1) = knots[right - 1], knots[right]
        return y0 + (y1 - y0) * (num_tokens - x0) // (x1 - x0)


class GroupAttention(NamedTuple):
    """Attention of the layers of one KV group, ps (``area_fs``: fs per doubled area)."""

    decode_ps: int
    decode_per_request_ps: int
    decode_per_context_ps: int
    reach_ps: int
    reach_per_token_ps: int
    base_ps: int
    per_token_ps: int
    area_fs: int
    mixed_per_request_ps: int
    mixed_per_context_ps: int
    reach_per_request_ps: int = 0
    reach_per_past_ps: int = 0
    window: int | None = None
    window_index: int = 0
    """Place of a windowed group in ``window_contexts``."""

    def prefill(self, chunks: Sequence[tuple[int, int]]) -> int:
        """Duration in ps of one call with ``(chunk, past)`` tokens of each request.

        The chunk's queries see the past and each other. The doubled area ``2*c*p + c*c`` counts
        query-key pairs twice so that it stays an integer; under a window each query sees at most
        ``window`` keys.
        """
        reach = queries = area = 0
        for chunk, past in chunks:
            queries += chunk
            if self.window is None or past + chunk <= self.window:
                reach += past + chunk
                area += chunk * (2 * past + chunk)
            else:
                seen, pairs = _under_window(chunk, past, self.window)
                reach, area = reach + seen, area + pairs
        return max(
            self.reach_ps
            + self.reach_per_request_ps * len(chunks)
            + self.reach_per_token_ps * reach
            + self.reach_per_past_ps * (reach - queries),
            self.base_ps + self.per_token_ps * queries + self.area_fs * area // FS_PER_PS,
        )


def _under_window(chunk: int, past: int, window: int) -> tuple[int, int]:
    """Keys that one request reads, and its doubled area, if the chunk is longer than the window."""
    if past >= window:
        return window + chunk, 2 * chunk * window
    growing = window - past
    return past + chunk, growing * (2 * past + growing) + 2 * (chunk - growing) * window


@dataclass(frozen=True, slots=True)
class ProfileCost:
    """Step durations in integers from a profile or a datasheet (see the module's formulas).

    ``attention`` has one entry a KV group of the engine. Built by
    :func:`kvsim.sim.cost.sources.build_cost`.
    """

    name: str
    overlap: bool
    host_ps: int
    host_per_request_ps: int
    gemm: TokenCost
    all_reduce: TokenCost
    attention: tuple[GroupAttention, ...]
    head: TokenCost
    """By requests in the step."""
    measured: MeasuredRanges
    copy_per_token_ps: int = 0

    def step(
        self,
        prefills: Sequence[tuple[int, int]],
        num_decodes: int,
        context: int,
        window_contexts: Sequence[int] = (),
    ) -> StepTime:
        """See :class:`kvsim.sim.cost.step_cost.StepCost`; O(prefills x groups).

        Without ``window_contexts`` a windowed group is charged the full ``context``.
        """
        if not prefills and not num_decodes:
            return NO_STEP
        num_tokens = num_decodes
        for chunk, _ in prefills:
            num_tokens += chunk
        requests = num_decodes + len(prefills)
        dense_ps = device_ps = self._dense_ps(num_tokens, requests)
        for group in self.attention:
            windowed = group.window is not None and window_contexts
            seen = window_contexts[group.window_index] if windowed else context
            if prefills:
                device_ps += (
                    group.mixed_per_request_ps * num_decodes + group.mixed_per_context_ps * seen
                )
                device_ps += group.prefill(prefills)
            else:
                device_ps += (
                    group.decode_ps
                    + group.decode_per_request_ps * num_decodes
                    + group.decode_per_context_ps * seen
                )
        host_ps = self.host_ps + self.host_per_request_ps * requests
        total_ps = max(host_ps, device_ps) if self.overlap else host_ps + device_ps
        inside = self._inside(prefills, num_decodes, context, num_tokens)
        prefill_ps = device_ps - dense_ps if prefills else 0
        return _new(StepTime, (total_ps, inside, dense_ps, prefill_ps, total_ps - device_ps))

    def copy_ps(self, num_tokens: int) -> int:
        """See :class:`kvsim.sim.cost.step_cost.StepCost`."""
        return self.copy_per_token_ps * num_tokens

    def decode_run(self, num_decodes: int, context: int) -> DecodeRun:
        """See :class:`kvsim.sim.cost.step_cost.StepCost`; O(groups).

        Ends where the device part overtakes the host part of an asynchronous engine, and where
        the context enters or leaves the measured range.
        """
        dense_ps = device_ps = self._dense_ps(num_decodes, num_decodes)
        per_context_ps = 0
        for group in self.attention:
            device_ps += group.decode_ps + group.decode_per_request_ps * num_decodes
            per_context_ps += group.decode_per_context_ps
        device_ps += per_context_ps * context
        slope_ps = per_context_ps * num_decodes
        host_ps = self.host_ps + self.host_per_request_ps * num_decodes
        num_steps, inside = self._range_run(num_decodes, context)
        if not self.overlap:
            total_ps = host_ps + device_ps
            return _new(DecodeRun, (total_ps, slope_ps, num_steps, inside, dense_ps, host_ps, 0))
        if device_ps >= host_ps:
            return _new(DecodeRun, (device_ps, slope_ps, num_steps, inside, dense_ps, 0, 0))
        if slope_ps:
            hidden = (host_ps - device_ps) // slope_ps + 1
            num_steps = hidden if num_steps is None else min(num_steps, hidden)
        shown_ps = host_ps - device_ps
        return _new(DecodeRun, (host_ps, 0, num_steps, inside, dense_ps, shown_ps, -slope_ps))

    def _dense_ps(self, num_tokens: int, requests: int) -> int:
        """Everything of the device part but attention."""
        return self.gemm.at(num_tokens) + self.all_reduce.at(num_tokens) + self.head.at(requests)

    def _inside(
        self,
        prefills: Sequence[tuple[int, int]],
        num_decodes: int,
        context: int,
        num_tokens: int,
    ) -> bool:
        measured = self.measured
        if not _within(num_tokens, measured.step_tokens):
            return False
        if num_decodes and not (
            _within(num_decodes, measured.batch) and _within(context, measured.total_context)
        ):
            return False
        if prefills and num_decodes and not _within(num_decodes, measured.mixed_decodes):
            return False
        return all(
            _within(chunk + past, measured.prefill_tokens) and _within(past, measured.prefill_past)
            for chunk, past in prefills
        )

    def _range_run(self, num_decodes: int, context: int) -> tuple[int | None, bool]:
        """Count the steps until ``inside`` changes (``None`` = never) and its value until then."""
        measured = self.measured
        bounds = measured.total_context
        if (
            bounds is None
            or not _within(num_decodes, measured.step_tokens)
            or not _within(num_decodes, measured.batch)
            or context > bounds[1]
        ):
            return None, False
        low, high = bounds
        if context >= low:
            return (high - context) // num_decodes + 1, True
        entry = -((context - low) // num_decodes)
        if context + entry * num_decodes > high:
            return None, False
        return entry, False


def _within(value: int, bounds: tuple[int, int] | None) -> bool:
    return bounds is not None and bounds[0] <= value <= bounds[1]
