"""Gemma 3n: the last layers read earlier layers' KV; embeddings for every layer; AltUp, LAuReL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvsim.sim.models.attention import (
    attention_params,
    kv_shape,
    layer_kinds,
    read_heads,
    stores_kv,
)
from kvsim.sim.models.decoder import assemble, read_num_layers
from kvsim.sim.models.families import Family
from kvsim.sim.models.layers import Layer
from kvsim.sim.models.reader import ConfigReader

if TYPE_CHECKING:
    from kvsim.sim.models.spec import ModelSpec

_FAMILY = Family(norms=4, tied=True, qk_norm="head", full_every=5)


def parse_gemma3n(config: ConfigReader, name: str, source: str) -> ModelSpec:
    """Text model of a Gemma 3n config (``modeling_gemma3n.py`` of transformers)."""
    config = _one_width(config)
    hidden, num_layers = config.size("hidden_size"), read_num_layers(config)
    per_layer = config.size("hidden_size_per_layer_input")
    inputs = config.size("altup_num_inputs")
    rank = config.size("laurel_rank")
    kinds = layer_kinds(config, _FAMILY, num_layers)
    layers = []
    for kind, stores in zip(kinds, stores_kv(config, num_layers), strict=True):
        heads = read_heads(config, hidden, kind)
        extra = 2 * hidden * rank + 2 * hidden * per_layer + hidden * inputs
        layers.append(
            Layer(
                shape=kv_shape(config, heads, kind),
                attention=attention_params(config, _FAMILY, hidden, heads, kind),
                mlp=3 * hidden * config.size("intermediate_size") + extra,
                norms=7 * hidden + 2 * heads.head_dim,
                stores_kv=stores,
                other=hidden + inputs**2 + inputs**3,
            )
        )
    spec = assemble(config, name, source, layers, family=_FAMILY)
    table = config.size("vocab_size_per_layer_input") * num_layers * per_layer
    other = hidden * num_layers * per_layer + 2 * (inputs - 1) * hidden * hidden
    counts = replace(
        spec.params,
        embedding=spec.params.embedding + table,
        norms=spec.params.norms + per_layer,
        other=spec.params.other + other,
    )
    return replace(spec, params=counts)


def _one_width(config: ConfigReader) -> ConfigReader:
    """Accept ``intermediate_size`` as a list of equal widths, one a layer."""
    widths = config.find("intermediate_size")
    if not isinstance(widths, list):
        return config
    if len({str(width) for width in widths}) != 1:
        raise ValueError(f"{config.where}: intermediate_size differs between layers")
    return ConfigReader({**config.values, "intermediate_size": widths[0]}, config.where)
