"""Matrix products of a layer: from a profile's numbers to the integer cost of another model.

The number without tokens is a floor that each layer has (launches, small kernels) and the reading
of weights, which scales with their bytes; the number per token is arithmetic and scales with
operations and the peak of the weight format. Where only a table between knots is known, it scales
by the larger of the two ratios. Experts: those that the tokens of a step touch are read, see
:class:`kvsim.sim.cost.profile.ExpertTerm`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvsim.sim.cost.profile_cost import TokenCost
from kvsim.sim.models.dtypes import weight_format
from kvsim.traces.common.quantities import PS_PER_US

if TYPE_CHECKING:
    from kvsim.sim.cost.deployment import Deployment
    from kvsim.sim.cost.profile import Profile, TokenTerm

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
    """``us`` of one layer for ``layers`` others that read ``read`` times as much in all."""
    floor_us = min(profile.layer_floor_us, us)
    return floor_us * layers + (us - floor_us) * read


def scaled_cost(term: TokenTerm, read: float, flops: float) -> TokenCost:
    """``term`` where ``read`` times as many bytes and ``flops`` times as much arithmetic is due."""
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
