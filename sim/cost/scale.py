"""From a profile of one shape to the integer cost of any model: each term by what drives it.

=====================  ============================================================
term                   scales with, per rank
=====================  ============================================================
GEMM, floor            layers
GEMM, rest of first    bytes of the layers' weights (experts: those the step touches)
GEMM, token and tile   FLOPs of a token, and the peak of the weight dtype
attention, per call    layers
attention, per request layers x KV heads
attention, per token   layers x KV bytes a token (so fp8 KV halves it)
prefill area, request  layers x query heads x head size
head                   vocabulary x hidden size, bytes and FLOPs
experts                experts touched x bytes of one, FLOPs of those a token meets
all-reduce             2 a layer: as measured, else ``latency + 2(tp-1)/tp * bytes / rate``
copy within the pool   2 x KV bytes a token / bandwidth of the card (assumed)
=====================  ============================================================

The profile's own numbers are of one rank of its split.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.cost.all_reduce_scale import all_reduce_cost
from kvsim.sim.cost.datasheet import KV_BANDWIDTH_FRACTION
from kvsim.sim.cost.product_scale import peak_ratio, products_cost, scaled_cost, whole_ps
from kvsim.sim.cost.profile_cost import FS_PER_PS, GroupAttention, ProfileCost
from kvsim.sim.models.dtypes import weight_format
from kvsim.sim.models.grouping import engine_groups
from kvsim.traces.common.quantities import PS_PER_US

if TYPE_CHECKING:
    from kvsim.sim.cost.deployment import Deployment
    from kvsim.sim.cost.profile import Profile
    from kvsim.sim.models import LayerGroup, ModelSpec


def scale_profile(
    profile: Profile, deployment: Deployment, *, name: str, overlap: bool
) -> ProfileCost:
    """Integer cost of ``deployment``; every coefficient is rounded here and only here."""
    head_bytes, head_flops = _head_ratios(profile, deployment)
    return ProfileCost(
        name=name,
        overlap=overlap,
        host_ps=whole_ps(profile.host.per_step_us),
        host_per_request_ps=whole_ps(profile.host.per_request_us),
        gemm=products_cost(profile, deployment),
        all_reduce=all_reduce_cost(profile, deployment),
        attention=_attention(profile, deployment),
        head=scaled_cost(profile.head, head_bytes, head_flops),
        measured=profile.measured,
        copy_per_token_ps=_copy_per_token_ps(deployment),
    )


def _copy_per_token_ps(deployment: Deployment) -> int:
    """KV of a token read and written once, at the bandwidth of the datasheet (assumed)."""
    kv_bytes = deployment.model.kv_bytes_per_token(deployment.kv_dtype, deployment.tp)
    return whole_ps(2 * kv_bytes / deployment.hardware.bandwidth_bytes_per_s * 1e6)


def _head_ratios(profile: Profile, deployment: Deployment) -> tuple[float, float]:
    """lm_head of the model against the profile's: bytes, FLOPs (the head keeps 16 bits)."""
    weights = weight_format(deployment.weight_dtype)
    plain = weights if weights.payload_bits >= 16 else weight_format(deployment.model.dtype)
    shape = profile.model
    size = deployment.model.vocab_size * deployment.model.hidden_size
    ratio = size / (shape.vocab_size * shape.hidden_size) * profile.tp / deployment.tp
    bits = plain.payload_bits / weight_format(profile.weight_dtype).payload_bits
    return ratio * bits, ratio * peak_ratio(profile, deployment, plain.name)


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
    own_heads = -(-shape.num_kv_heads // profile.tp)
    heads = layers * group.kv_heads_per_rank(tp) / own_heads
    own_values = 2 * own_heads * shape.head_dim
    reference = float(weight_format(profile.kv_dtype).bytes_of(own_values))
    kv_bytes = layers * float(group.layer_kv_bytes(deployment.kv_dtype, tp)) / reference
    query_dim, value_dim = _prefill_dims(deployment.model, group)
    area = group.num_heads * (query_dim + value_dim) / (2 * shape.num_heads * shape.head_dim)
    area *= layers * profile.tp / tp
    return GroupAttention(
        decode_ps=whole_ps(factor * decode.per_call_us * layers),
        decode_per_request_ps=whole_ps(factor * decode.per_request_us * heads),
        decode_per_context_ps=whole_ps(factor * decode.per_token_us * kv_bytes),
        reach_ps=whole_ps(prefill.reach_us * layers),
        reach_per_token_ps=whole_ps(prefill.reach_per_token_us * kv_bytes),
        base_ps=whole_ps(prefill.base_us * layers),
        per_token_ps=whole_ps(prefill.per_token_us * area),
        area_fs=round(prefill.per_area_us * area / 2 * PS_PER_US * FS_PER_PS),
        mixed_per_request_ps=whole_ps(factor * mixed.per_request_us * heads),
        mixed_per_context_ps=whole_ps(factor * mixed.per_token_us * kv_bytes),
        reach_per_request_ps=whole_ps(prefill.reach_per_request_us * area),
        reach_per_past_ps=whole_ps(prefill.reach_per_past_us * kv_bytes),
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
    call_ps = whole_ps(profile.decode_attention.per_call_us * layers)
    request_ps = whole_ps(request_us)
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
