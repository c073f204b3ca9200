"""Hybrids whose layers are listed one by one: Nemotron-H, Jamba, Bamba and Granite 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.models.attention import attention_params, kv_shape, read_heads
from kvsim.sim.models.decoder import assemble, read_dtype, read_num_layers
from kvsim.sim.models.experts import dense_params, read_mlps
from kvsim.sim.models.families import Family
from kvsim.sim.models.layers import KVShape, Layer
from kvsim.sim.models.recurrent import mamba1, mamba2

if TYPE_CHECKING:
    from kvsim.sim.models.experts import Mlp
    from kvsim.sim.models.reader import ConfigReader
    from kvsim.sim.models.recurrent import Recurrent
    from kvsim.sim.models.spec import ModelSpec

_NEMOTRON = Family(mlp_matrices=2, router_bias=True)
_PLAIN = Family()


def parse_nemotron_h(config: ConfigReader, name: str, source: str) -> ModelSpec:
    """One mixer a layer: ``M`` Mamba 2, ``*`` attention, ``-`` MLP, ``E`` experts."""
    hidden, num_layers = config.size("hidden_size"), read_num_layers(config)
    pattern = config.text("hybrid_override_pattern")
    if len(pattern) != num_layers or set(pattern) - set("M*-E"):
        raise ValueError(
            f"{config.where}: hybrid_override_pattern={pattern!r:.80} must have {num_layers}"
            " letters out of M, *, - and E"
        )
    made: dict[str, Layer] = {"-": Layer(None, 0, 0, hidden)}
    if "-" in pattern:
        width = config.size("intermediate_size")
        made["-"] = Layer(None, 0, dense_params(config, _NEMOTRON, hidden, width), hidden)
    if "M" in pattern:
        made["M"] = _recurrent(
            mamba2(config, hidden, read_dtype(config)), Layer(None, 0, 0, hidden)
        )
    if "*" in pattern:
        made["*"] = _attention(config, hidden, Layer(None, 0, 0, hidden))
    if "E" in pattern:
        experts = read_mlps(config, _NEMOTRON, hidden, num_layers)[-1]
        made["E"] = _feed_forward(experts, hidden)
    layers = [made[letter] for letter in pattern]
    return assemble(config, name, source, layers, family=_NEMOTRON)


def parse_jamba(config: ConfigReader, name: str, source: str) -> ModelSpec:
    """Attention every ``attn_layer_period`` layers, experts every ``expert_layer_period``."""
    hidden, num_layers = config.size("hidden_size"), read_num_layers(config)
    attend = _period(config, "attn_layer")
    route = _period(config, "expert_layer")
    experts = read_mlps(config, _PLAIN, hidden, 1)[0]
    width = config.size("intermediate_size")
    dense = Layer(None, 0, dense_params(config, _PLAIN, hidden, width), 2 * hidden)
    net = mamba1(config, hidden, read_dtype(config))
    layers = []
    for i in range(num_layers):
        rest = _feed_forward(experts, 2 * hidden) if i % route[0] == route[1] else dense
        is_full = i % attend[0] == attend[1]
        layers.append(_attention(config, hidden, rest) if is_full else _recurrent(net, rest))
    return assemble(config, name, source, layers, family=_PLAIN)


def parse_mamba_attention(config: ConfigReader, name: str, source: str) -> ModelSpec:
    """Granite 4 and Bamba: Mamba 2 or attention, then experts and a shared MLP."""
    hidden, num_layers = config.size("hidden_size"), read_num_layers(config)
    kinds = _mamba_kinds(config, num_layers)
    rest = _feed_forward(read_mlps(config, _PLAIN, hidden, num_layers)[0], 2 * hidden)
    net = mamba2(config, hidden, read_dtype(config))
    made = {"mamba": _recurrent(net, rest), "attention": _attention(config, hidden, rest)}
    family = Family(tied=config.text("model_type") == "granitemoehybrid")
    return assemble(config, name, source, [made[kind] for kind in kinds], family=family)


def _mamba_kinds(config: ConfigReader, num_layers: int) -> list[str]:
    listed = config.items("layer_types") or config.items("layers_block_type")
    if listed is not None:
        kinds = [str(item) for item in listed]
    else:
        full = set(map(str, config.items("attn_layer_indices") or []))
        kinds = ["attention" if str(i) in full else "mamba" for i in range(num_layers)]
    if len(kinds) != num_layers or set(kinds) - {"mamba", "attention"}:
        raise ValueError(
            f"{config.where}: layer_types must have {num_layers} entries out of mamba, attention"
        )
    return kinds


def _period(config: ConfigReader, key: str) -> tuple[int, int]:
    return config.size(f"{key}_period"), config.size(f"{key}_offset", minimum=0)


def _attention(config: ConfigReader, hidden: int, rest: Layer) -> Layer:
    heads = read_heads(config, hidden)
    weights = attention_params(config, _PLAIN, hidden, heads, "full")
    return _with(rest, kv_shape(config, heads, "full"), weights)


def _recurrent(net: Recurrent, rest: Layer) -> Layer:
    shape = KVShape("state", net.num_heads, 0, 0, 0, state_bytes=net.state_bytes)
    return _with(rest, shape, net.weights, net.norms, net.other)


def _feed_forward(mlp: Mlp, norms: int) -> Layer:
    return Layer(
        shape=None,
        attention=0,
        mlp=mlp.dense,
        norms=norms,
        num_experts=mlp.num_experts,
        experts_per_token=mlp.per_token,
        expert_params=mlp.expert_params,
    )


def _with(rest: Layer, shape: KVShape, weights: int, norms: int = 0, other: int = 0) -> Layer:
    """Put a mixer in front of the feed-forward layer ``rest``."""
    return Layer(
        shape=shape,
        attention=weights,
        mlp=rest.mlp,
        norms=rest.norms + norms,
        num_experts=rest.num_experts,
        experts_per_token=rest.experts_per_token,
        expert_params=rest.expert_params,
        other=other,
    )
