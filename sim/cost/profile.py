"""A profile: measured or assumed coefficients of the step-cost form for one card and model shape.

The form is that of :mod:`kvsim.sim.cost.profile_cost`. All times here are microseconds for *one
layer* (host and head: one step), so that a person can check or write one by hand; the JSON file has
the same keys (:mod:`kvsim.sim.cost.profile_file`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class HostTerm:
    """Scheduling, preparing and sampling on the CPU, once a step."""

    per_step_us: float
    per_request_us: float = 0.0


@dataclass(frozen=True, slots=True)
class TokenTerm:
    """Time by tokens N in the step: the largest of affine pieces, or a table between knots.

    ``pieces``: ``(us, us_per_token)``; ``knots``: ``(tokens, us)``, used instead when given, and
    continued with the slope of its last two knots. Head: requests in place of tokens; all-reduces:
    bytes.

    Kernels round N up to whole tiles: the last piece pays ``per_tile_us`` for each started tile of
    ``tile_tokens``, on top of what it pays by token.
    """

    pieces: tuple[tuple[float, float], ...]
    knots: tuple[tuple[int, float], ...] = ()
    tile_tokens: int = 1
    per_tile_us: float = 0.0

    @property
    def arithmetic_us(self) -> float:
        """Time of one more token in the last piece, over whole tiles."""
        return self.pieces[-1][1] + self.per_tile_us / self.tile_tokens

    def later(self, us: float) -> TokenTerm:
        """Return the same term with ``us`` added."""
        return replace(
            self,
            pieces=tuple((base_us + us, slope_us) for base_us, slope_us in self.pieces),
            knots=tuple((tokens, at_us + us) for tokens, at_us in self.knots),
        )


@dataclass(frozen=True, slots=True)
class DecodeAttention:
    """``per_call + per_request * B + per_token * T`` with T the sum of contexts."""

    per_call_us: float
    per_request_us: float
    per_token_us: float


@dataclass(frozen=True, slots=True)
class PrefillAttention:
    """One call: the larger of two pieces, the first of which holds for little work.

    ``reach + reach_per_request*R + reach_per_token*(p + c) + reach_per_past*p``, ``base +
    per_token*c + per_area*area``: R = requests of the call; c = chunk and p = past in tokens, area
    = c*p + c*c/2, each summed over them.
    """

    reach_us: float
    reach_per_token_us: float
    base_us: float
    per_token_us: float
    per_area_us: float
    reach_per_request_us: float = 0.0
    reach_per_past_us: float = 0.0


@dataclass(frozen=True, slots=True)
class MixedAttention:
    """Decodes in a step that also prefills: ``per_request * n + per_token * T``."""

    per_request_us: float
    per_token_us: float


@dataclass(frozen=True, slots=True)
class ExpertTerm:
    """Routed experts of a layer: ``max(base + per_expert*d + per_token*N, compute(N))``.

    N = tokens in the step, d = distinct experts that they touch on average, see
    :meth:`kvsim.sim.models.spec.Experts.distinct`.
    """

    base_us: float
    per_expert_us: float
    per_token_us: float
    compute_us: float
    compute_per_token_us: float


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The layer that was measured; sizes in values, of the whole model.

    ``intermediate_size`` is the width of the MLP that every token meets (0 = none);
    ``expert_params`` the weights of one routed expert.
    """

    name: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    num_experts: int = 0
    experts_per_token: int = 0
    expert_params: int = 0

    @property
    def layer_params(self) -> int:
        """Weights of one layer's matrix products (gated MLP, no biases), routed experts apart."""
        query = self.num_heads * self.head_dim
        key_value = 2 * self.num_kv_heads * self.head_dim
        attention = self.hidden_size * (2 * query + key_value)
        return attention + 3 * self.hidden_size * self.intermediate_size

    @property
    def kv_values(self) -> int:
        """K and V values a token in one layer."""
        return 2 * self.num_kv_heads * self.head_dim


@dataclass(frozen=True, slots=True)
class MeasuredRanges:
    """Where the numbers come from measurements: inclusive bounds, ``None`` = not measured."""

    batch: tuple[int, int] | None = None
    """Decoding requests in a step."""
    total_context: tuple[int, int] | None = None
    """Sum of their contexts, tokens."""
    step_tokens: tuple[int, int] | None = None
    """Tokens in a step (GEMM)."""
    prefill_tokens: tuple[int, int] | None = None
    """past + chunk of one prefill."""
    prefill_past: tuple[int, int] | None = None
    """past of one prefill."""
    mixed_decodes: tuple[int, int] | None = None
    """Decodes in a step that also prefills."""


WARN_MEDIAN: Final = 0.10
"""A block with a larger median error gets a warning, even if it passed its gate."""


@dataclass(frozen=True, slots=True)
class HoldOut:
    """Absolute relative error, as a fraction, on points that the fit did not see."""

    median: float
    p90: float
    points: int


@dataclass(frozen=True, slots=True)
class Profile:
    """The cost of every step of one model shape on one card, and its reliability."""

    name: str
    source: str
    hardware: str
    model: ModelShape
    weight_dtype: str
    kv_dtype: str
    kernels: dict[str, str]
    host: HostTerm
    gemm: TokenTerm
    decode_attention: DecodeAttention
    prefill_attention: PrefillAttention
    mixed_attention: MixedAttention
    head: TokenTerm
    """lm_head and sampler by requests, once a step."""
    measured: MeasuredRanges
    hold_out: dict[str, HoldOut]
    """By block."""
    fidelity: str
    """Short words for outputs: ``decode fitted; prefill, mixed, overhead assumed``."""
    assumed: tuple[str, ...]
    """Sentences on what was not measured."""
    tp: int = 1
    """Ranks that the measured layer was split over; all terms are of one of them."""
    layer_floor_us: float = 0.0
    """Part of ``gemm``'s times that does not shrink with the weights: launches, small kernels."""
    experts: ExpertTerm | None = None
    all_reduce: dict[str, TokenTerm] = field(default_factory=dict)
    """One all-reduce by the number of cards (a decimal string) and its bytes."""
    attention_factor: dict[str, float] = field(default_factory=dict)
    """Decode attention of memory layouts (:func:`layout_name`) relative to ``decode_attention``."""
    card: dict[str, Any] = field(default_factory=dict)
    """Row of a card file (docs/memory.md) if ``hardware`` is not a bundled card."""
    measurement: dict[str, Any] = field(default_factory=dict)
    """What ``kvsim calibrate`` measured: setup, device, raw points, standard errors."""


def layout_name(allocator: str, block_size: int) -> str:
    """Name of a memory layout, as attention kernels see it: ``contiguous``, or ``paged-16``."""
    return allocator if allocator == "contiguous" else f"{allocator}-{block_size}"
