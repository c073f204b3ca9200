"""From config to layers for the families whose layers are attention + MLP (or experts)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.models.dtypes import weight_format
from kvsim.sim.models.families import find_family
from kvsim.sim.models.layers import (
    KVShape,
    Layer,
    count_params,
    find_experts,
    group_layers,
)
from kvsim.sim.models.spec import ModelSpec

if TYPE_CHECKING:
    from kvsim.sim.models.families import Family
    from kvsim.sim.models.reader import ConfigReader


def parse_decoder(config: ConfigReader, name: str, source: str) -> ModelSpec:
    """Model of a Llama-like config. Raises ``ValueError`` naming the key that is wrong."""
    model_type = config.text("model_type")
    family = find_family(model_type, config.where)
    hidden = config.size("hidden_size")
    vocab = config.size("vocab_size")
    num_layers = config.size("num_hidden_layers")
    shape, notices = read_heads(config, hidden)
    ffn = config.size("intermediate_size")
    layer = Layer(
        shape=shape,
        attention=attention_params(config, family, hidden, shape),
        mlp=mlp_params(config, family, hidden, ffn),
        norms=family.norms * norm_params(family, hidden) + qk_norm_params(family, shape),
    )
    layers = [layer] * num_layers
    tied = config.flag("tie_word_embeddings", default=family.tied)
    params = count_params(
        layers,
        embedding=vocab * hidden,
        head=0 if tied else vocab * hidden + (vocab if family.head_bias else 0),
        norms=norm_params(family, hidden),
    )
    return ModelSpec(
        name=name,
        model_type=model_type,
        num_layers=num_layers,
        hidden_size=hidden,
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        intermediate_size=ffn,
        vocab_size=vocab,
        tied_embeddings=tied,
        dtype=read_dtype(config),
        max_position=config.size("max_position_embeddings"),
        groups=group_layers(layers),
        params=params,
        experts=find_experts(layers, config.where),
        notices=notices,
        source=source,
    )


def read_heads(config: ConfigReader, hidden: int) -> tuple[KVShape, tuple[str, ...]]:
    """Head counts and sizes, ``head_dim`` from the config first; a notice when it is unusual."""
    heads = config.size("num_attention_heads")
    kv_heads = config.size("num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise ValueError(
            f"{config.where}: num_attention_heads={heads} is not a multiple of"
            f" num_key_value_heads={kv_heads}"
        )
    given = config.optional_size("head_dim")
    if given is None and hidden % heads:
        raise ValueError(
            f"{config.where}: hidden_size={hidden} is not a multiple of"
            f" num_attention_heads={heads} and there is no head_dim"
        )
    head_dim = given or hidden // heads
    shape = KVShape("full", heads, kv_heads, head_dim, head_dim)
    if head_dim * heads == hidden:
        return shape, ()
    return shape, (
        f"head_dim is {head_dim} by the config, not hidden / heads = {hidden}/{heads}"
        f" = {hidden / heads:g}",
    )


def attention_params(config: ConfigReader, family: Family, hidden: int, shape: KVShape) -> int:
    """Weights and biases of q, k, v and o."""
    query = shape.num_heads * shape.head_dim
    key, value = (shape.num_kv_heads * size for size in (shape.head_dim, shape.v_head_dim))
    output = shape.num_heads * shape.v_head_dim
    biased = config.flag("attention_bias", "use_bias", default=family.qkv_bias or family.o_bias)
    qkv_bias = biased if config.has("attention_bias") else family.qkv_bias
    o_bias = biased if config.has("attention_bias") else family.o_bias
    weights = hidden * (query + key + value) + output * hidden
    return weights + (query + key + value) * qkv_bias + hidden * o_bias


def mlp_params(config: ConfigReader, family: Family, hidden: int, ffn: int) -> int:
    """Weights and biases of one dense MLP."""
    biased = config.flag("mlp_bias", default=family.mlp_bias)
    up = family.mlp_matrices - 1
    return family.mlp_matrices * hidden * ffn + (up * ffn + hidden) * biased


def norm_params(family: Family, width: int) -> int:
    """Parameters of one norm."""
    return width * (2 if family.norm_bias else 1)


def qk_norm_params(family: Family, shape: KVShape) -> int:
    """Parameters of the norms on queries and keys."""
    if family.qk_norm == "head":
        return 2 * shape.head_dim
    if family.qk_norm in ("all", "heads"):
        return (shape.num_heads + shape.num_kv_heads) * shape.head_dim
    return 0


def read_dtype(config: ConfigReader) -> str:
    """Weight dtype of the checkpoint, ``bf16`` where the config is silent."""
    name = config.text("torch_dtype", "dtype", default="bfloat16")
    return weight_format(name).name
