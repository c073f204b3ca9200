"""OPT: learned positions, biases everywhere, an embedding that may be narrower than the layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.models.decoder import read_dtype, read_num_layers
from kvsim.sim.models.layers import KVShape, Layer, count_params, group_layers
from kvsim.sim.models.spec import ModelSpec

if TYPE_CHECKING:
    from kvsim.sim.models.reader import ConfigReader

POSITION_OFFSET = 2
"""Rows of the position table that no token uses."""


def parse_opt(config: ConfigReader, name: str, source: str) -> ModelSpec:
    """Model of an OPT config (``modeling_opt.py`` of transformers)."""
    hidden = config.size("hidden_size")
    heads = config.size("num_attention_heads")
    if hidden % heads:
        raise ValueError(
            f"{config.where}: hidden_size={hidden} is not a multiple of num_attention_heads={heads}"
        )
    ffn = config.size("ffn_dim")
    vocab = config.size("vocab_size")
    positions = config.size("max_position_embeddings")
    width = config.size("word_embed_proj_dim", default=hidden)
    num_layers = read_num_layers(config)
    bias = int(config.flag("enable_bias", default=True))
    head_dim = hidden // heads
    layer = Layer(
        shape=KVShape("full", heads, heads, head_dim, head_dim),
        attention=4 * (hidden * hidden + bias * hidden),
        mlp=2 * hidden * ffn + bias * (ffn + hidden),
        norms=2 * 2 * hidden,
    )
    before = config.flag("do_layer_norm_before", default=True)
    last = before and not config.flag("_remove_final_layer_norm")
    projections = 2 * width * hidden if width != hidden else 0
    tied = config.flag("tie_word_embeddings", default=True)
    layers = [layer] * num_layers
    return ModelSpec(
        name=name,
        model_type="opt",
        num_layers=num_layers,
        hidden_size=hidden,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=head_dim,
        intermediate_size=ffn,
        vocab_size=vocab,
        tied_embeddings=tied,
        dtype=read_dtype(config),
        max_position=positions,
        groups=group_layers(layers),
        params=count_params(
            layers,
            embedding=vocab * width + (positions + POSITION_OFFSET) * hidden + projections,
            head=0 if tied else vocab * width,
            norms=2 * hidden if last else 0,
        ),
        source=source,
        layers=tuple(layers),
    )
