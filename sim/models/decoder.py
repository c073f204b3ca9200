"""From config to layers for the families whose layers are attention + MLP (or experts)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.models.attention import (
    attention_params,
    head_notice,
    kv_shape,
    latent_copied_params,
    latent_params,
    latent_shape,
    layer_kinds,
    qk_norm_params,
    read_heads,
    read_latent,
    stores_kv,
)
from kvsim.sim.models.dtypes import weight_format
from kvsim.sim.models.experts import mlp_width, read_mlps
from kvsim.sim.models.families import find_family
from kvsim.sim.models.layers import (
    KVShape,
    Layer,
    count_params,
    expand_latents,
    find_experts,
    group_layers,
)
from kvsim.sim.models.quantized import checkpoint_format
from kvsim.sim.models.recurrent import gated_delta_net
from kvsim.sim.models.spec import ModelSpec

if TYPE_CHECKING:
    from kvsim.sim.models.experts import Mlp
    from kvsim.sim.models.families import Family
    from kvsim.sim.models.reader import ConfigReader
    from kvsim.sim.models.spec import LayerGroup

MAX_LAYERS = 10_000


def parse_decoder(config: ConfigReader, name: str, source: str) -> ModelSpec:
    """Model of a Llama-like config. Raises ``ValueError`` naming the key that is wrong."""
    family = find_family(config.text("model_type"), config.where)
    hidden = config.size("hidden_size")
    num_layers = read_num_layers(config)
    dtype = read_dtype(config)
    kinds = layer_kinds(config, family, num_layers)
    mlps = read_mlps(config, family, hidden, num_layers)
    stores = stores_kv(config, num_layers)
    makers = {kind: _mixer(config, family, hidden, kind, dtype) for kind in sorted(set(kinds))}
    norms = family.norms * norm_params(family, hidden)
    layers = [
        _join(makers[kind], mlp, norms, store)
        for kind, mlp, store in zip(kinds, mlps, stores, strict=True)
    ]
    return assemble(config, name, source, layers, family=family)


def assemble(
    config: ConfigReader, name: str, source: str, layers: list[Layer], *, family: Family
) -> ModelSpec:
    """Model of ``layers`` between an embedding and a head."""
    hidden, vocab = config.size("hidden_size"), config.size("vocab_size")
    tied = config.flag("tie_word_embeddings", default=family.tied)
    groups = group_layers(layers)
    latent = read_latent(config)
    heads = read_heads(config, hidden) if latent is None else None
    expanded: tuple[LayerGroup, ...] = ()
    if latent is not None:
        expanded = expand_latents(groups, latent.nope_dim + latent.rope_dim, latent.v_head_dim)
    weight_dtype, notices = checkpoint_format(config)
    if heads is not None:
        notices = (*head_notice(heads, hidden), *notices)
    return ModelSpec(
        name=name,
        model_type=config.text("model_type"),
        num_layers=len(layers),
        hidden_size=hidden,
        num_heads=config.size("num_attention_heads"),
        num_kv_heads=heads.num_kv_heads if heads else 1,
        head_dim=heads.head_dim if heads else groups[0].head_dim,
        intermediate_size=mlp_width(config),
        vocab_size=vocab,
        tied_embeddings=tied,
        dtype=read_dtype(config),
        max_position=config.size("max_position_embeddings", "n_positions"),
        groups=groups,
        params=count_params(
            layers,
            embedding=vocab * hidden,
            head=0 if tied else vocab * hidden + (vocab if family.head_bias else 0),
            norms=norm_params(family, hidden),
        ),
        experts=find_experts(layers, config.where),
        weight_dtype=weight_dtype,
        notices=notices,
        source=source,
        expanded=expanded,
        layers=tuple(layers),
    )


def _mixer(config: ConfigReader, family: Family, hidden: int, kind: str, dtype: str) -> Layer:
    """Make the attention (or recurrent) half of a layer of one kind."""
    if kind == "linear":
        net = gated_delta_net(config, hidden, dtype)
        shape = KVShape("state", net.num_heads, 0, 0, 0, state_bytes=net.state_bytes)
        return Layer(shape, net.weights, 0, net.norms, other=net.other)
    latent = read_latent(config)
    if latent is not None:
        weights, norms = latent_params(config, hidden, latent)
        copied = latent_copied_params(hidden, latent)
        return Layer(latent_shape(latent), weights, 0, norms, copied=copied)
    heads = read_heads(config, hidden, kind)
    return Layer(
        shape=kv_shape(config, heads, kind),
        attention=attention_params(config, family, hidden, heads, kind),
        mlp=0,
        norms=qk_norm_params(config, family, heads),
        other=heads.num_heads if _has_sinks(config, family, kind) else 0,
    )


def _join(mixer: Layer, mlp: Mlp, norms: int, stores: bool) -> Layer:
    return Layer(
        shape=mixer.shape,
        attention=mixer.attention,
        mlp=mlp.dense,
        norms=mixer.norms + norms + mlp.norms,
        stores_kv=stores,
        num_experts=mlp.num_experts,
        experts_per_token=mlp.per_token,
        expert_params=mlp.expert_params,
        other=mixer.other,
        copied=mixer.copied,
    )


def _has_sinks(config: ConfigReader, family: Family, kind: str) -> bool:
    return family.sinks or (kind == "sliding" and config.flag("add_swa_attention_sink_bias"))


def norm_params(family: Family, width: int) -> int:
    """Parameters of one norm."""
    return width * (2 if family.norm_bias else 1)


def read_num_layers(config: ConfigReader) -> int:
    """Layer count, bounded so that garbage does not fill memory."""
    num_layers = config.size("num_hidden_layers", "n_layer", "num_layers")
    if num_layers > MAX_LAYERS:
        raise ValueError(
            f"{config.where}: num_hidden_layers={num_layers} is not in 1..{MAX_LAYERS}"
        )
    return num_layers


def read_dtype(config: ConfigReader) -> str:
    """Weight dtype of the checkpoint, ``bf16`` where the config is silent."""
    return weight_format(config.text("torch_dtype", "dtype", default="bfloat16")).name
