"""What a profile says a measured point takes: one truth for hold-outs, tables and plots."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.calibrate.measure.points import Point
    from kvsim.sim.cost.profile import Profile, TokenTerm

BLOCKS: Final = {
    "layer": "layer",
    "decode": "decode_attention",
    "prefill": "prefill_attention",
    "mixed": "mixed_attention",
    "head": "head",
}
"""Measured blocks that have hold-outs, and the names of their errors in a profile."""


def predicted_us(profile: Profile, point: Point) -> float | None:
    """Time of one call in us by the profile's own terms; ``None`` for what has no term."""
    predict = _PREDICTORS.get(point.block)
    return None if predict is None else predict(profile, **point.loads)


def layer_us(profile: Profile, tokens: int) -> float:
    """All of a layer but attention, us."""
    return _token_term_us(profile.gemm, tokens)


def decode_us(profile: Profile, batch: int, context: int) -> float:
    """Attention of a decode step, us."""
    term = profile.decode_attention
    per_request_us = term.per_request_us + term.per_token_us * context
    return term.per_call_us + batch * per_request_us


def prefill_us(profile: Profile, chunk: int, past: int) -> float:
    """Attention of one chunk, us."""
    term = profile.prefill_attention
    return max(
        term.reach_us
        + term.reach_per_request_us
        + term.reach_per_token_us * (chunk + past)
        + term.reach_per_past_us * past,
        term.base_us
        + term.per_token_us * chunk
        + term.per_area_us * (chunk * past + chunk * chunk / 2),
    )


def mixed_us(profile: Profile, chunk: int, past: int, decodes: int, context: int) -> float:
    """Attention of a chunk and of decodes beside it, us."""
    term = profile.mixed_attention
    per_request_us = term.per_request_us + term.per_token_us * context
    return prefill_us(profile, chunk, past) + decodes * per_request_us


def head_us(profile: Profile, batch: int) -> float:
    """lm_head and sampler, us a step."""
    return _token_term_us(profile.head, batch)


def host_us(profile: Profile, requests: int, context: int) -> float:
    """The host's part, us a step; the context does not matter."""
    del context
    return profile.host.per_step_us + profile.host.per_request_us * requests


_PREDICTORS: Final[dict[str, Callable[..., float]]] = {
    "layer": layer_us,
    "decode": decode_us,
    "prefill": prefill_us,
    "mixed": mixed_us,
    "head": head_us,
    "host": host_us,
}


def _token_term_us(term: TokenTerm, tokens: int) -> float:
    if not term.knots:
        values = [us + per_token_us * tokens for us, per_token_us in term.pieces]
        return max(*values, values[-1] + term.per_tile_us * -(-tokens // term.tile_tokens))
    if tokens <= term.knots[0][0]:
        return term.knots[0][1]
    pairs = list(itertools.pairwise(term.knots))
    low, high = next((pair for pair in pairs if tokens <= pair[1][0]), pairs[-1])
    return low[1] + (high[1] - low[1]) * (tokens - low[0]) / (high[0] - low[0])
