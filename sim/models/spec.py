"""Model shapes: what a model stores per token, per request and once.

Bytes here are exact integers derived from a Hugging Face ``config.json``; the formulas are in
``docs/memory.md``. A model is a table of *layer groups*: layers that keep the same things of a
sequence. K and V of one layer take ``kv_heads * (head_dim + v_head_dim)`` values a token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from kvsim.sim.models.dtypes import kv_format, weight_format

if TYPE_CHECKING:
    from kvsim.sim.models.layers import Layer

LATENT_TILE = 128
GroupKind = Literal["full", "sliding", "chunked", "mla", "state"]


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers that keep the same: everything, a window of tokens, one latent, or a fixed state.

    ``num_layers`` layers attend; only ``num_kv_layers`` of them store KV (the others read the
    cache of an earlier layer). ``state_bytes`` is per layer and request.
    """

    kind: GroupKind
    num_layers: int
    num_kv_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    window: int | None = None
    state_bytes: int = 0

    def kv_heads_per_rank(self, tp: int) -> int:
        """KV heads that one of ``tp`` ranks holds: split down to one, then copied."""
        return -(-self.num_kv_heads // tp)

    def kv_values_per_rank(self, tp: int = 1) -> int:
        """K and V values a token and layer on one rank (an MLA latent is copied whole)."""
        return self.kv_heads_per_rank(tp) * (self.head_dim + self.v_head_dim)

    def layer_kv_bytes(self, kv_dtype: str, tp: int = 1) -> Fraction:
        """Bytes a token in one storing layer on one rank, scales included."""
        if kv_dtype == "fp8_ds_mla":
            return self._fp8_latent_bytes()
        heads = self.kv_heads_per_rank(tp) * (2 if self.v_head_dim else 1)
        return kv_format(kv_dtype).bytes_of(self.kv_values_per_rank(tp), heads)

    def layer_scale_bytes(self, kv_dtype: str, tp: int = 1) -> Fraction:
        """Bytes of scales a token in one storing layer on one rank."""
        if kv_dtype == "fp8_ds_mla":
            return Fraction((self.head_dim - self.head_dim % LATENT_TILE) // LATENT_TILE * 4)
        heads = self.kv_heads_per_rank(tp) * (2 if self.v_head_dim else 1)
        return kv_format(kv_dtype).scale_bytes(self.kv_values_per_rank(tp), heads)

    def _fp8_latent_bytes(self) -> Fraction:
        """FlashMLA's format: the latent in fp8, a scale for each 128 values, rope in 16 bits."""
        if self.kind == "state":
            return Fraction(0)
        if self.kind != "mla":
            raise ValueError("KV dtype 'fp8_ds_mla' is for MLA models only; use 'fp8'")
        rope = self.head_dim % LATENT_TILE
        latent = self.head_dim - rope
        return Fraction(latent + latent // LATENT_TILE * 4 + 2 * rope)

    def tokens_kept(self, length: int) -> int:
        """Tokens of a sequence of ``length`` whose KV such a layer needs for the next step."""
        if self.kind == "state":
            return 0
        return length if self.window is None else min(length, self.window)


@dataclass(frozen=True, slots=True)
class ParamCount:
    """Exact number of parameters by where they sit; ``head`` is 0 when tied to the embedding."""

    embedding: int
    attention: int
    mlp: int
    experts: int
    norms: int
    head: int
    other: int = 0
    copied: int = 0
    """Part of ``attention`` that every tensor-parallel rank holds whole (the way to latents)."""

    @property
    def total(self) -> int:
        """All parameters of the text model, tied ones once."""
        return self.layer_linear + self.embedding + self.norms + self.head + self.other

    @property
    def layer_linear(self) -> int:
        """Weights (and biases) of the layers' matrix products."""
        return self.attention + self.mlp + self.experts


@dataclass(frozen=True, slots=True)
class Experts:
    """Routed experts: ``num_experts`` a layer, ``per_token`` chosen, equal in every MoE layer."""

    num_layers: int
    num_experts: int
    per_token: int
    params_each: int

    def distinct(self, num_tokens: int) -> float:
        """Experts that ``num_tokens`` tokens touch on average, routing taken as uniform."""
        missed = (1 - self.per_token / self.num_experts) ** num_tokens
        return self.num_experts * (1 - missed)


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One decoder-only model. Sizes in values, not bytes, unless a name says otherwise.

    ``max_position`` is the longest sequence (vLLM's default ``max_model_len``). ``notices`` are
    sentences for the reader (a head size that is not hidden / heads, a vision tower left out).
    """

    name: str
    model_type: str
    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    tied_embeddings: bool
    dtype: str
    max_position: int
    groups: tuple[LayerGroup, ...]
    params: ParamCount
    experts: Experts | None = None
    weight_dtype: str = ""
    """Format of the checkpoint's linear layers; empty = ``dtype``."""
    notices: tuple[str, ...] = ()
    source: str = ""
    expanded: tuple[LayerGroup, ...] = field(default=(), repr=False)
    """MLA models: the groups of an engine that stores K and V of every head instead."""
    layers: tuple[Layer, ...] = field(default=(), repr=False)
    """The layers in order, for splitting them over pipeline ranks."""

    @property
    def num_params(self) -> int:
        """Exact parameter count of the text model."""
        return self.params.total

    @property
    def active_layer_params(self) -> int:
        """Weights of the layers' matrix products that one token meets."""
        if self.experts is None:
            return self.params.layer_linear
        idle = self.experts.num_experts - self.experts.per_token
        return self.params.layer_linear - self.experts.num_layers * idle * self.experts.params_each

    def kv_dtype(self, kv_dtype: str = "auto") -> str:
        """Name of the KV format; ``auto`` is the model's own dtype."""
        return kv_format(self.dtype if kv_dtype == "auto" else kv_dtype).name

    def kv_bytes_per_token(self, kv_dtype: str = "auto", tp: int = 1) -> int:
        """Bytes one more token takes on one rank while no window is full yet, rounded up."""
        name = self.kv_dtype(kv_dtype)
        return math.ceil(sum(g.num_kv_layers * g.layer_kv_bytes(name, tp) for g in self.groups))

    def kv_scale_bytes_per_token(self, kv_dtype: str = "auto", tp: int = 1) -> int:
        """Bytes of scales in :meth:`kv_bytes_per_token`, rounded up; the rest is payload."""
        name = self.kv_dtype(kv_dtype)
        scales = sum(g.num_kv_layers * g.layer_scale_bytes(name, tp) for g in self.groups)
        return math.ceil(scales)

    def kv_bytes_fixed_per_request(self, tp: int = 1) -> int:
        """Bytes of recurrent state a request on one rank, whatever its length."""
        return sum(math.ceil(g.num_kv_layers * Fraction(g.state_bytes, tp)) for g in self.groups)

    def kv_bytes(self, length: int, kv_dtype: str = "auto", tp: int = 1) -> int:
        """Bytes a sequence of ``length`` tokens needs on one rank, windows and state included."""
        name = self.kv_dtype(kv_dtype)
        grown = sum(
            g.tokens_kept(length) * g.num_kv_layers * g.layer_kv_bytes(name, tp)
            for g in self.groups
        )
        return math.ceil(grown) + self.kv_bytes_fixed_per_request(tp)

    def weights_bytes(self, weight_dtype: str = "auto", tp: int = 1) -> int:
        """Bytes of the weights on one of ``tp`` ranks, rounded up.

        The layers' matrices take ``weight_dtype`` (``mxfp4``: the experts only); embeddings, norms,
        head and the rest stay in the model's dtype when ``weight_dtype`` is a quantised one. Norms
        and projections to latents are copied on every rank, KV projections where ranks outnumber KV
        heads.
        """
        chosen = (self.weight_dtype or self.dtype) if weight_dtype == "auto" else weight_dtype
        linear = weight_format(chosen)
        plain = linear if linear.payload_bits >= 16 else weight_format(self.dtype)
        counts = self.params
        packed = counts.experts if linear.name == "mxfp4" else counts.layer_linear
        split = linear.bytes_of(packed) + plain.bytes_of(
            counts.layer_linear - packed + counts.embedding + counts.head + counts.other
        )
        copies = self._copied_params(tp)
        return math.ceil(
            Fraction(split, tp) + linear.bytes_of(copies) + plain.bytes_of(counts.norms)
        )

    def _copied_params(self, tp: int) -> int:
        """Weights of KV and latent projections that a rank holds beyond its even share."""
        extra = Fraction(self.params.copied * (tp - 1), tp)
        for group in self.groups:
            if group.kind in ("mla", "state"):
                continue
            own = group.kv_values_per_rank(tp) - Fraction(group.kv_values_per_rank(1), tp)
            extra += group.num_kv_layers * self.hidden_size * own
        return math.ceil(extra)

    def check_tp(self, tp: int) -> None:
        """Refuse a tensor-parallel size that an engine could not split this model by."""
        if tp < 1 or self.num_heads % tp:
            raise ValueError(
                f"tp={tp} does not divide the {self.num_heads} attention heads of {self.name}"
            )
        for heads in {g.num_kv_heads for g in self.groups if g.num_kv_heads > 1}:
            if heads % tp and tp % heads:
                raise ValueError(
                    f"tp={tp} neither divides nor is a multiple of the {heads} KV heads"
                    f" of {self.name}"
                )
