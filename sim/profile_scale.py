"""From a profile of one shape to the integer cost of any model: each term by what drives it.

=====================  ============================================================
term                   scales with, per rank
=====================  ============================================================
GEMM, first number     bytes of the layers' weights (experts: those the step touches)
GEMM, per token        FLOPs of a token, and the peak of the weight dtype
attention, per call    layers
attention, per request layers x KV heads
attention, per token   layers x KV bytes a token (so fp8 KV halves it)
prefill area           layers x query heads x head size
head                   vocabulary x hidden size, bytes and FLOPs
all-reduce             2 a layer, ``latency + 2(tp-1)/tp * bytes / rate`` (assumed)
copy within the pool   2 x KV bytes a token / bandwidth of the card (assumed)
=====================  ============================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvsim.sim.datasheet import KV_BANDWIDTH_FRACTION
from kvsim.sim.models.dtypes import weight_format
from kvsim.sim.models.grouping import engine_groups
from kvsim.sim.profile_cost import FS_PER_PS, GroupAttention, ProfileCost, TokenCost

if TYPE_CHECKING:
    from kvsim.sim.hardware import HardwareSpec
    from kvsim.sim.models import LayerGroup, ModelSpec
    from kvsim.sim.profile import Profile

PS_PER_US = 10**6
ALL_REDUCES_PER_LAYER = 2
ALL_REDUCE_LATENCY_US = 5.0
ALL_REDUCE_LINK_FRACTION = 0.35
"""Of one direction of the link; 2-8 card tables of A100 and H100 lie at 0.23-0.52."""
_MOE_KNOTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 4096, 16384)


@dataclass(frozen=True, slots=True)
class Deployment:
    """What a profile is scaled to: the model, the card, the split and the dtypes."""

    model: ModelSpec
    hardware: HardwareSpec
    tp: int = 1
    weight_dtype: str = "bf16"
    kv_dtype: str = "bf16"
    attention_factor: float = 1.0
    """Decode attention of the memory layout and block size in use against the profile's."""

    def matches(self, profile: Profile) -> bool:
        """Whether the profile was made for exactly this, so that nothing is derived."""
        model, shape = self.model, profile.model
        same_shape = (
            model.experts is None
            and len(model.groups) == 1
            and model.groups[0].kind == "full"
            and model.num_layers == shape.num_layers
            and model.hidden_size == shape.hidden_size
            and model.num_heads == shape.num_heads
            and model.num_kv_heads == shape.num_kv_heads
            and model.head_dim == shape.head_dim
            and model.intermediate_size == shape.intermediate_size
            and model.vocab_size == shape.vocab_size
        )
        dtypes = (self.weight_dtype, self.kv_dtype) == (profile.weight_dtype, profile.kv_dtype)
        return same_shape and dtypes and self.tp == 1


def scale_profile(
    profile: Profile, deployment: Deployment, *, name: str, overlap: bool
) -> ProfileCost:
    """Integer cost of ``deployment``; every coefficient is rounded here and only here."""
    head_bytes, head_flops = _head_ratios(profile, deployment)
    return ProfileCost(
        name=name,
        overlap=overlap,
        host_ps=_ps(profile.host.per_step_us),
        host_per_request_ps=_ps(profile.host.per_request_us),
        gemm=_gemm(profile, deployment),
        all_reduce=_all_reduce(deployment),
        attention=_attention(profile, deployment),
        head_ps=_ps(profile.head.per_step_us * head_bytes),
        head_per_request_ps=_ps(profile.head.per_request_us * head_flops),
        measured=profile.measured,
        copy_per_token_ps=_copy_per_token_ps(deployment),
    )


def _ps(us: float) -> int:
    return round(us * PS_PER_US)


def _copy_per_token_ps(deployment: Deployment) -> int:
    """KV of a token read and written once, at the bandwidth of the datasheet (assumed)."""
    kv_bytes = deployment.model.kv_bytes_per_token(deployment.kv_dtype, deployment.tp)
    return _ps(2 * kv_bytes / deployment.hardware.bandwidth_bytes_per_s * 1e6)


def _peak_ratio(profile: Profile, deployment: Deployment, dtype: str) -> float:
    """Time of a FLOP in ``dtype`` against one in the profile's dtype."""
    hardware = deployment.hardware
    return hardware.peak(profile.weight_dtype) / hardware.peak(dtype)


def _gemm(profile: Profile, deployment: Deployment) -> TokenCost:
    """All layers' matrix products on one rank."""
    model, params = deployment.model, deployment.model.params
    weights = weight_format(deployment.weight_dtype)
    reference = profile.model.layer_params
    layer_bytes = float(weight_format(profile.weight_dtype).bytes_of(reference)) * deployment.tp
    dense = float(weights.bytes_of(params.attention + params.mlp)) / layer_bytes
    routed = float(weights.bytes_of(params.experts)) / layer_bytes
    flops = model.active_layer_params / deployment.tp / reference
    flops *= _peak_ratio(profile, deployment, weights.name)
    term = profile.gemm
    if term.knots:
        ratio = max(dense + routed, flops)
        return TokenCost((), tuple((n, _ps(us * ratio)) for n, us in term.knots))
    if model.experts is None:
        return TokenCost(tuple((_ps(us * dense), _ps(slope * flops)) for us, slope in term.pieces))
    knots = []
    for tokens in _MOE_KNOTS:
        touched = model.experts.distinct(tokens) / model.experts.num_experts
        read = dense + routed * touched
        knots.append(
            (tokens, max(_ps(us * read + slope * flops * tokens) for us, slope in term.pieces))
        )
    return TokenCost((), tuple(knots))


def _head_ratios(profile: Profile, deployment: Deployment) -> tuple[float, float]:
    """lm_head of the model against the profile's: bytes, FLOPs (the head keeps 16 bits)."""
    weights = weight_format(deployment.weight_dtype)
    plain = weights if weights.payload_bits >= 16 else weight_format(deployment.model.dtype)
    shape = profile.model
    size = deployment.model.vocab_size * deployment.model.hidden_size
    ratio = size / (shape.vocab_size * shape.hidden_size) / deployment.tp
    bits = plain.payload_bits / weight_format(profile.weight_dtype).payload_bits
    return ratio * bits, ratio * _peak_ratio(profile, deployment, plain.name)


def _all_reduce(deployment: Deployment) -> TokenCost:
    tp, hardware = deployment.tp, deployment.hardware
    if tp == 1:
        return TokenCost(((0, 0),))
    rate = hardware.link_bytes_per_s or hardware.host_link_bytes_per_s
    if not rate:
        raise ValueError(f"{hardware.name} has no link to a second card, so tp={tp} has no cost")
    count = ALL_REDUCES_PER_LAYER * deployment.model.num_layers
    token_bytes = 2 * deployment.model.hidden_size
    token_us = 2 * (tp - 1) / tp * token_bytes / (ALL_REDUCE_LINK_FRACTION * rate) * 1e6
    return TokenCost(((_ps(count * ALL_REDUCE_LATENCY_US), _ps(count * token_us)),))


def _attention(profile: Profile, deployment: Deployment) -> tuple[GroupAttention, ...]:
    """One entry a block table of the engine, plus one for layers that read another's cache."""
    model = deployment.model
    tables = engine_groups(model).groups
    windowed = [table.layers for table in tables if table.layers.window is not None]
    entries: list[GroupAttention] = []
    num_windowed = 0
    for table in tables:
        entry = _group(profile, deployment, table.layers, table.num_layers)
        if table.layers.window is not None:
            entry = entry._replace(window_index=num_windowed)
            num_windowed += 1
        entries.append(entry)
    for group in model.groups:
        readers = group.num_layers - group.num_kv_layers
        if readers:
            entry = _group(profile, deployment, group, readers)
            index = windowed.index(group) if group in windowed else 0
            entries.append(entry._replace(window_index=index))
    return tuple(entries)


def _group(
    profile: Profile, deployment: Deployment, group: LayerGroup, layers: int
) -> GroupAttention:
    """Attention of ``layers`` layers of one kind, folded together and rounded."""
    if group.kind == "state":
        return _state_group(profile, deployment, group, layers)
    shape, tp = profile.model, deployment.tp
    decode, mixed = profile.decode_attention, profile.mixed_attention
    prefill, factor = profile.prefill_attention, deployment.attention_factor
    heads = layers * group.kv_heads_per_rank(tp) / shape.num_kv_heads
    reference = float(weight_format(profile.kv_dtype).bytes_of(shape.kv_values))
    kv_bytes = layers * float(group.layer_kv_bytes(deployment.kv_dtype, tp)) / reference
    query_dim, value_dim = _prefill_dims(deployment.model, group)
    area = group.num_heads * (query_dim + value_dim) / (2 * shape.num_heads * shape.head_dim)
    area *= layers / tp
    return GroupAttention(
        decode_ps=_ps(factor * decode.per_call_us * layers),
        decode_per_request_ps=_ps(factor * decode.per_request_us * heads),
        decode_per_context_ps=_ps(factor * decode.per_token_us * kv_bytes),
        reach_ps=_ps(prefill.reach_us * layers),
        reach_per_token_ps=_ps(prefill.reach_per_token_us * kv_bytes),
        base_ps=_ps(prefill.base_us * layers),
        per_token_ps=_ps(prefill.per_token_us * area),
        area_fs=round(prefill.per_area_us * area / 2 * PS_PER_US * FS_PER_PS),
        mixed_per_request_ps=_ps(factor * mixed.per_request_us * heads),
        mixed_per_context_ps=_ps(factor * mixed.per_token_us * kv_bytes),
        window=group.window,
    )


def _prefill_dims(model: ModelSpec, group: LayerGroup) -> tuple[int, int]:
    """Query-key and value width of a head in prefill (MLA expands its latent there)."""
    if group.kind == "mla" and model.expanded:
        return model.expanded[0].head_dim, model.expanded[0].v_head_dim
    return group.head_dim, group.v_head_dim


def _state_group(
    profile: Profile, deployment: Deployment, group: LayerGroup, layers: int
) -> GroupAttention:
    """Recurrent layers read and write their state once a request and step (assumed)."""
    rate = KV_BANDWIDTH_FRACTION * deployment.hardware.bandwidth_bytes_per_s
    request_us = layers * 2 * group.state_bytes / deployment.tp / rate * 1e6
    call_ps = _ps(profile.decode_attention.per_call_us * layers)
    request_ps = _ps(request_us)
    return GroupAttention(
        decode_ps=call_ps,
        decode_per_request_ps=request_ps,
        decode_per_context_ps=0,
        reach_ps=call_ps,
        reach_per_token_ps=0,
        base_ps=call_ps,
        per_token_ps=0,
        area_fs=0,
        mixed_per_request_ps=request_ps,
        mixed_per_context_ps=0,
    )
