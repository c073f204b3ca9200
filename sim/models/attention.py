"""Attention of each layer of a decoder: heads, windows, latents, shared caches, parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvsim.sim.models.layers import KVShape

if TYPE_CHECKING:
    from kvsim.sim.models.families import Family
    from kvsim.sim.models.reader import ConfigReader

_KIND_NAMES = {
    "full_attention": "full",
    "attention": "full",
    "global_attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear",
    "mamba": "linear",
}


class Heads(NamedTuple):
    """Head counts and widths of one kind of layer."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int


def layer_kinds(config: ConfigReader, family: Family, num_layers: int) -> list[str]:
    """``full``, ``sliding``, ``chunked`` or ``linear`` for each layer.

    A list in the config decides, or else its pattern or the family's pattern. If there is a window
    but neither, every layer slides.
    """
    listed = config.items("layer_types")
    if listed is not None:
        kinds = [_KIND_NAMES.get(str(item), "") for item in listed]
        if len(kinds) != num_layers or "" in kinds:
            unknown = [str(i) for i, k in zip(listed, kinds, strict=True) if not k]
            raise ValueError(
                f"{config.where}: layer_types has {len(kinds)} entries for {num_layers} layers"
                + (f", unknown: {unknown[0]!r}" if unknown else "")
            )
        return kinds
    pattern = config.items("hybrid_layer_pattern")
    if pattern is not None:
        if len(pattern) != num_layers:
            raise ValueError(
                f"{config.where}: hybrid_layer_pattern has {len(pattern)} entries for"
                f" {num_layers} layers"
            )
        return ["sliding" if item else "full" for item in pattern]
    interval = config.optional_size("full_attention_interval")
    if interval is not None:
        return ["linear" if (i + 1) % interval else "full" for i in range(num_layers)]
    return _windowed_kinds(config, family, num_layers)


def _windowed_kinds(config: ConfigReader, family: Family, num_layers: int) -> list[str]:
    """Kinds of the layers without a list of them."""
    narrow = "chunked" if family.chunked else "sliding"
    window = config.find("attention_chunk_size" if family.chunked else "sliding_window")
    if window is None or not config.flag("use_sliding_window", default=True):
        return ["full"] * num_layers
    if config.has("use_sliding_window") and config.has("max_window_layers"):
        first = config.size("max_window_layers", minimum=0)
        return ["full" if i < first else narrow for i in range(num_layers)]
    every = config.optional_size("sliding_window_pattern") or family.full_every
    if not every:
        return [narrow] * num_layers
    return [narrow if (i + 1) % every else "full" for i in range(num_layers)]


def read_heads(config: ConfigReader, hidden: int, kind: str = "full") -> Heads:
    """Heads of the layers of one kind, ``head_dim`` from the config first."""
    prefix = "swa_" if kind == "sliding" else ""
    heads = config.size(f"{prefix}num_attention_heads", "num_attention_heads")
    keys = [f"{prefix}num_key_value_heads", "num_key_value_heads"]
    if kind == "full":
        keys.insert(0, "num_global_key_value_heads")
    kv_heads = config.size(*keys, default=heads)
    if heads % kv_heads:
        raise ValueError(
            f"{config.where}: num_attention_heads={heads} is not a multiple of"
            f" num_key_value_heads={kv_heads}"
        )
    wide = ["global_head_dim"] if kind == "full" else [f"{prefix}head_dim"]
    head_dim = config.optional_size(*wide, "head_dim", "attention_head_dim")
    if head_dim is None and hidden % heads:
        raise ValueError(
            f"{config.where}: hidden_size={hidden} is not a multiple of"
            f" num_attention_heads={heads} and there is no head_dim"
        )
    head_dim = head_dim or hidden // heads
    v_head_dim = config.size(f"{prefix}v_head_dim", "v_head_dim", default=head_dim)
    return Heads(heads, kv_heads, head_dim, v_head_dim)


def head_notice(heads: Heads, hidden: int) -> tuple[str, ...]:
    """Sentence for the reader when the head size is not the usual quotient."""
    if heads.head_dim * heads.num_heads == hidden:
        return ()
    return (
        f"head_dim is {heads.head_dim} by the config, not hidden / heads ="
        f" {hidden}/{heads.num_heads} = {hidden / heads.num_heads:g}",
    )


def kv_shape(config: ConfigReader, heads: Heads, kind: str) -> KVShape:
    """Return the KV that a layer of ``full``, ``sliding`` or ``chunked`` attention keeps."""
    if kind == "sliding":
        return KVShape("sliding", *heads, window=config.size("sliding_window"))
    if kind == "chunked":
        return KVShape("chunked", *heads, window=config.size("attention_chunk_size"))
    return KVShape("full", *heads)


def attention_params(
    config: ConfigReader, family: Family, hidden: int, heads: Heads, kind: str
) -> int:
    """Weights and biases of q, k, v and o."""
    query = heads.num_heads * heads.head_dim
    key = heads.num_kv_heads * heads.head_dim
    value = heads.num_kv_heads * heads.v_head_dim
    if kind == "full" and config.flag("attention_k_eq_v"):
        value = 0
    output = heads.num_heads * heads.v_head_dim
    made = query * (2 if family.gated_query else 1) + key + value
    qkv_bias, o_bias = family.qkv_bias, family.o_bias
    if config.has("attention_bias"):
        qkv_bias = config.flag("attention_bias")
        o_bias = qkv_bias and family.o_follows_bias
    return hidden * made + output * hidden + made * qkv_bias + hidden * o_bias


def qk_norm_params(config: ConfigReader, family: Family, heads: Heads) -> int:
    """Parameters of the norms on queries and keys."""
    if family.qk_norm == "all":
        return (heads.num_heads + heads.num_kv_heads) * heads.head_dim
    asked = config.flag("use_qk_norm") and not family.chunked
    return 2 * heads.head_dim if family.qk_norm == "head" or asked else 0


class Latent(NamedTuple):
    """Widths of multi-head latent attention."""

    num_heads: int
    q_rank: int | None
    kv_rank: int
    rope_dim: int
    nope_dim: int
    v_head_dim: int


def read_latent(config: ConfigReader) -> Latent | None:
    """MLA widths, ``None`` where the model stores K and V."""
    if not config.has("kv_lora_rank"):
        return None
    return Latent(
        config.size("num_attention_heads"),
        config.optional_size("q_lora_rank"),
        config.size("kv_lora_rank"),
        config.size("qk_rope_head_dim"),
        config.size("qk_nope_head_dim"),
        config.size("v_head_dim"),
    )


def latent_params(config: ConfigReader, hidden: int, latent: Latent) -> tuple[int, int]:
    """``(weights and biases, norms)`` of one MLA layer."""
    query = latent.num_heads * (latent.nope_dim + latent.rope_dim)
    made = latent.kv_rank + latent.rope_dim
    expand = latent.num_heads * (latent.nope_dim + latent.v_head_dim)
    weights = hidden * made + latent.kv_rank * expand
    weights += latent.num_heads * latent.v_head_dim * hidden
    biases = made + hidden
    if latent.q_rank is None:
        weights += hidden * query
    else:
        weights += latent.q_rank * (hidden + query)
        biases += latent.q_rank
    if config.flag("attention_bias"):
        weights += biases
    return weights, latent.kv_rank + (latent.q_rank or 0)


def latent_copied_params(hidden: int, latent: Latent) -> int:
    """Weights that lead to the latents: too narrow to split, vLLM holds them on every rank."""
    return hidden * (latent.kv_rank + latent.rope_dim + (latent.q_rank or 0))


def latent_shape(latent: Latent) -> KVShape:
    """One latent and rope vector a token, for all heads together."""
    return KVShape("mla", latent.num_heads, 1, latent.kv_rank + latent.rope_dim, 0)


def stores_kv(config: ConfigReader, num_layers: int) -> list[bool]:
    """Whether each layer writes its own cache, or reads that of an earlier layer."""
    shared = config.size("num_kv_shared_layers", default=0, minimum=0)
    if shared >= num_layers:
        raise ValueError(
            f"{config.where}: num_kv_shared_layers={shared} leaves none of {num_layers} layers"
        )
    factor = config.size("cla_share_factor", default=1) if config.flag("use_cla") else 1
    return [i < num_layers - shared and i % factor == 0 for i in range(num_layers)]
