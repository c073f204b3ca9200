"""Falcon: one KV head (or a few), attention and MLP side by side, LayerNorm, no biases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.models.decoder import assemble, read_num_layers
from kvsim.sim.models.families import Family
from kvsim.sim.models.layers import KVShape, Layer
from kvsim.sim.models.reader import ConfigReader

if TYPE_CHECKING:
    from kvsim.sim.models.spec import ModelSpec

TRAINED_POSITIONS = 2048
"""Falcon configs have no length; all models were trained with this one."""


def parse_falcon(config: ConfigReader, name: str, source: str) -> ModelSpec:
    """Model of a Falcon config (``modeling_falcon.py`` of transformers)."""
    hidden = config.size("hidden_size")
    heads = config.size("num_attention_heads", "n_head")
    if hidden % heads:
        raise ValueError(
            f"{config.where}: hidden_size={hidden} is not a multiple of num_attention_heads={heads}"
        )
    new = config.flag("new_decoder_architecture")
    if new:
        kv_heads = config.size("num_kv_heads", "n_head_kv", default=heads)
    else:
        kv_heads = 1 if config.flag("multi_query", default=True) else heads
    head_dim = hidden // heads
    width = config.size("ffn_hidden_size", default=4 * hidden)
    bias = config.flag("bias")
    made = (heads + 2 * kv_heads) * head_dim
    parallel = config.flag("parallel_attn", default=True)
    num_norms = 2 if new or not parallel else 1
    layer = Layer(
        shape=KVShape("full", heads, kv_heads, head_dim, head_dim),
        attention=hidden * made + hidden * hidden + (made + hidden) * bias,
        mlp=2 * hidden * width + (width + hidden) * bias,
        norms=num_norms * 2 * hidden,
    )
    values = {
        "max_position_embeddings": TRAINED_POSITIONS,
        **config.values,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": width,
    }
    layers = [layer] * read_num_layers(config)
    family = Family(norm_bias=True, tied=True)
    return assemble(ConfigReader(values, config.where), name, source, layers, family=family)
