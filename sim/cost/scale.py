"""From a profile of one shape to the integer cost of any model: how each term scales.

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

from dataclasses import replace
from typing import TYPE_CHECKING

from kvsim.sim.cost.datasheet import KV_BANDWIDTH_FRACTION
from kvsim.sim.cost.profile_cost import FS_PER_PS, GroupAttention, ProfileCost, TokenCost
from kvsim.sim.models.dtypes import weight_format
from kvsim.sim.models.grouping import engine_groups
from kvsim.traces.common.quantities import PS_PER_US

if TYPE_CHECKING:
    from kvsim.sim.cost.deployment import Deployment
    from kvsim.sim.cost.profile import Profile, TokenTerm
    from kvsim.sim.models import LayerGroup, ModelSpec


_MOE_KNOTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 4096, 16384)


def whole_ps(us: float) -> int:
    """Microseconds as whole picoseconds."""
    return round(us * PS_PER_US)


def peak_ratio(profile: Profile, deployment: Deployment, dtype: str) -> float:
    """Time of a FLOP in ``dtype`` against one in the profile's dtype."""
    hardware = deployment.hardware
    return hardware.peak(profile.weight_dtype) / hardware.peak(dtype)


def products_cost(profile: Profile, deployment: Deployment) -> TokenCost:
    """All layers' matrix products on one rank."""
    model, params = deployment.model, deployment.model.params
    weights = weight_format(deployment.weight_dtype)
    split = profile.tp / deployment.tp
    peak = peak_ratio(profile, deployment, weights.name)
    reference = profile.model.layer_params
    layer_bytes = float(weight_format(profile.weight_dtype).bytes_of(reference))
    dense = float(weights.bytes_of(params.attention + params.mlp)) / layer_bytes * split
    term = profile.gemm
    if model.experts is None:
        flops = model.active_layer_params / reference * split * peak
        return _scaled(profile, model.num_layers, dense, flops)
    if profile.experts is not None:
        flops = (params.attention + params.mlp) / reference * split * peak
        dense_cost = _scaled(profile, model.num_layers, dense, flops)
        return _with_experts(profile, deployment, dense_cost, peak)
    flops = model.active_layer_params / reference * split * peak
    routed = float(weights.bytes_of(params.experts)) / layer_bytes * split
    if term.knots:
        return scaled_cost(term, dense + routed, flops)
    knots = []
    for tokens in _MOE_KNOTS:
        touched = model.experts.distinct(tokens) / model.experts.num_experts
        cost = _scaled(profile, model.num_layers, dense + routed * touched, flops)
        knots.append((tokens, cost.at(tokens)))
    return TokenCost((), tuple(knots))


def _reading_us(profile: Profile, layers: int, us: float, read: float) -> float:
    """Time for ``layers`` other layers that read ``read`` times as much, from ``us`` of one."""
    floor_us = min(profile.layer_floor_us, us)
    return floor_us * layers + (us - floor_us) * read


def scaled_cost(term: TokenTerm, read: float, flops: float) -> TokenCost:
    """``term`` for ``read`` times as many bytes and ``flops`` times as much arithmetic."""
    pieces = ((whole_ps(us * read), whole_ps(slope * flops)) for us, slope in term.pieces)
    knots = ((n, whole_ps(us * max(read, flops))) for n, us in term.knots)
    per_tile_ps = whole_ps(term.per_tile_us * flops)
    return TokenCost(tuple(pieces), tuple(knots), term.tile_tokens, per_tile_ps)


def _scaled(profile: Profile, layers: int, dense: float, flops: float) -> TokenCost:
    term = profile.gemm
    if term.knots:
        return scaled_cost(term, dense, flops)
    pieces = tuple((_reading_us(profile, layers, us, dense), slope) for us, slope in term.pieces)
    return scaled_cost(replace(term, pieces=pieces), 1.0, flops)


def _with_experts(
    profile: Profile, deployment: Deployment, dense: TokenCost, peak: float
) -> TokenCost:
    """Dense products plus the experts that a step's tokens touch, per number of tokens."""
    experts, shape, term = deployment.model.experts, profile.model, profile.experts
    assert experts is not None, "called for models with experts"
    assert term is not None, "called for profiles with experts"
    plain, weights = weight_format(profile.weight_dtype), weight_format(deployment.weight_dtype)
    layers = experts.num_layers
    split = layers * profile.tp / deployment.tp
    size = experts.params_each / shape.expert_params
    read = float(weights.bytes_of(experts.params_each) / plain.bytes_of(shape.expert_params))
    flops = size * experts.per_token / shape.experts_per_token * split * peak
    knots = []
    for tokens in _MOE_KNOTS:
        touched = experts.distinct(tokens)
        loaded = (
            term.base_us * layers
            + term.per_expert_us * touched * read * split
            + term.per_token_us * tokens * flops
        )
        computed = term.compute_us * layers + term.compute_per_token_us * tokens * flops
        knots.append((tokens, dense.at(tokens) + whole_ps(max(loaded, computed))))
    return TokenCost((), tuple(knots))


ALL_REDUCES_PER_LAYER = 2
ALL_REDUCE_LATENCY_US = 5.0
ALL_REDUCE_LINK_FRACTION = 0.35
"""Share of one direction's rate; tables of 2-8 A100 and H100 cards give 0.23-0.52."""


def all_reduce_cost(profile: Profile, deployment: Deployment) -> TokenCost:
    """All all-reduces of a step by its tokens; activations have 16 bits."""
    tp, hardware = deployment.tp, deployment.hardware
    if tp == 1:
        return TokenCost(((0, 0),))
    term = profile.all_reduce.get(str(tp))
    if term is not None:
        return _measured_all_reduce(term, deployment.model)
    rate = hardware.link_bytes_per_s or hardware.host_link_bytes_per_s
    if not rate:
        raise ValueError(f"{hardware.name} has no link to a second card, so tp={tp} has no cost")
    count = ALL_REDUCES_PER_LAYER * deployment.model.num_layers
    token_bytes = 2 * deployment.model.hidden_size
    token_us = 2 * (tp - 1) / tp * token_bytes / (ALL_REDUCE_LINK_FRACTION * rate) * 1e6
    return TokenCost(((whole_ps(count * ALL_REDUCE_LATENCY_US), whole_ps(count * token_us)),))


def _measured_all_reduce(term: TokenTerm, model: ModelSpec) -> TokenCost:
    """All all-reduces of a step, by tokens; activations have 16 bits."""
    count = ALL_REDUCES_PER_LAYER * model.num_layers
    token_bytes = 2 * model.hidden_size
    if not term.knots:
        return TokenCost(
            tuple(
                (whole_ps(count * us), whole_ps(count * slope * token_bytes))
                for us, slope in term.pieces
            )
        )
    table = TokenCost((), tuple((size, whole_ps(us)) for size, us in term.knots))
    tokens = sorted({max(-(-size // token_bytes), 1) for size, _ in term.knots})
    if len(tokens) == 1:
        tokens.append(tokens[0] + 1)
    return TokenCost((), tuple((n, count * table.at(n * token_bytes)) for n in tokens))


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
