"""GPT-2 and its multi-query descendant (StarCoder 1): learned positions, biases everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvsim.sim.models.decoder import assemble, read_num_layers
from kvsim.sim.models.families import Family
from kvsim.sim.models.layers import KVShape, Layer
from kvsim.sim.models.reader import ConfigReader

if TYPE_CHECKING:
    from kvsim.sim.models.spec import ModelSpec


def parse_gpt2(config: ConfigReader, name: str, source: str) -> ModelSpec:
    """Model of a GPT-2 or GPT-BigCode config (transformers' classes of the same names)."""
    hidden, heads = config.size("n_embd"), config.size("n_head")
    if hidden % heads:
        raise ValueError(f"{config.where}: n_embd={hidden} is not a multiple of n_head={heads}")
    default = config.text("model_type") == "gpt_bigcode"
    kv_heads = 1 if config.flag("multi_query", default=default) else heads
    head_dim = hidden // heads
    width = config.size("n_inner", default=4 * hidden)
    positions = config.size("n_positions")
    made = (heads + 2 * kv_heads) * head_dim
    layer = Layer(
        shape=KVShape("full", heads, kv_heads, head_dim, head_dim),
        attention=hidden * made + made + hidden * hidden + hidden,
        mlp=2 * hidden * width + width + hidden,
        norms=4 * hidden,
    )
    values = {
        **config.values,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": width,
    }
    layers = [layer] * read_num_layers(config)
    family = Family(norm_bias=True, tied=True)
    spec = assemble(ConfigReader(values, config.where), name, source, layers, family=family)
    embedding = spec.params.embedding + positions * hidden
    return replace(spec, params=replace(spec.params, embedding=embedding))
