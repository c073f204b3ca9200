"""The MLP or the experts of each layer, and their parameters.

Gemma 4 (``enable_moe_block``) runs a dense MLP beside the experts in every layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kvsim.sim.models.families import Family
    from kvsim.sim.models.reader import ConfigReader

_NUM_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_k")


class Mlp(NamedTuple):
    """Feed-forward part of one layer; ``dense`` counts everything but the routed experts."""

    dense: int
    num_experts: int = 0
    per_token: int = 0
    expert_params: int = 0
    norms: int = 0


def dense_params(config: ConfigReader, family: Family, hidden: int, width: int) -> int:
    """Weights and biases of one MLP of ``width``."""
    biased = config.flag("mlp_bias", default=family.mlp_bias)
    up = family.mlp_matrices - 1
    return family.mlp_matrices * hidden * width + (up * width + hidden) * biased


def moe_layers(config: ConfigReader, num_layers: int) -> list[bool]:
    """Which layers route to experts."""
    if not config.size(*_NUM_EXPERTS, default=0, minimum=0):
        return [False] * num_layers
    frequency = config.find("moe_layer_freq")
    if isinstance(frequency, list):
        if len(frequency) != num_layers:
            raise ValueError(
                f"{config.where}: moe_layer_freq has {len(frequency)} entries for {num_layers}"
                " layers"
            )
        return [bool(item) for item in frequency]
    step = config.size("moe_layer_freq", "decoder_sparse_step", default=1)
    every = config.size("interleave_moe_layer_step", "moe_layer_interval", default=1)
    first = config.size("first_k_dense_replace", default=0, minimum=0)
    dense = set(map(str, config.items("mlp_only_layers") or []))
    aligned = config.has("decoder_sparse_step")
    return [
        i >= first
        and ((i + 1) % step == 0 if aligned else i % step == 0)
        and (i + 1) % every == 0
        and str(i) not in dense
        for i in range(num_layers)
    ]


def read_mlps(config: ConfigReader, family: Family, hidden: int, num_layers: int) -> list[Mlp]:
    """Feed-forward parts of all layers."""
    routed = moe_layers(config, num_layers)
    experts = _experts(config, family, hidden) if any(routed) else Mlp(0)
    dense = Mlp(0)
    if not all(routed):
        width = config.size("intermediate_size_mlp", "intermediate_size", "ffn_hidden_size")
        dense = Mlp(dense_params(config, family, hidden, width))
    return [experts if is_routed else dense for is_routed in routed]


def _experts(config: ConfigReader, family: Family, hidden: int) -> Mlp:
    num_experts = config.size(*_NUM_EXPERTS)
    per_token = config.size(*_PER_TOKEN)
    width = config.size("moe_intermediate_size", "expert_intermediate_size", "intermediate_size")
    each = family.mlp_matrices * hidden * width
    if family.expert_bias:
        each += (family.mlp_matrices - 1) * width + hidden
    shared_width = config.size(
        "shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
        default=width
        * config.size("n_shared_experts", "moe_num_shared_experts", default=0, minimum=0),
        minimum=0,
    )
    if family.chunked:
        shared_width = width
    router = num_experts * (hidden + family.router_bias)
    shared = family.mlp_matrices * hidden * shared_width
    gate = hidden if shared_width and family.shared_gate else 0
    if config.flag("enable_moe_block"):
        beside = dense_params(config, family, hidden, config.size("intermediate_size"))
        scales = hidden + num_experts
        return Mlp(router + beside + scales, num_experts, per_token, each, norms=3 * hidden)
    return Mlp(router + shared + gate, num_experts, per_token, each)


def mlp_width(config: ConfigReader) -> int:
    """Width of the widest MLP, for the activation peak."""
    return max(
        config.size("intermediate_size", "moe_intermediate_size"),
        config.size("intermediate_size_mlp", default=1),
    )
