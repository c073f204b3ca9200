"""The layers of the families of decoder-only models, by ``model_type``.

Each row states what the Hugging Face implementation of that type builds (transformers
``models/<model_type>/modeling_<model_type>.py``) and the config cannot say: biases, the number of
norms, tied embeddings by default. Where a config key decides, the key wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvsim.traces.common.names import unknown


@dataclass(frozen=True, slots=True)
class Family:
    """One row: how a layer of this ``model_type`` is built."""

    qkv_bias: bool = False
    o_bias: bool = False
    o_follows_bias: bool = True
    """``attention_bias`` of the config also puts a bias on the output projection."""
    mlp_bias: bool = False
    mlp_matrices: int = 3
    """3: gate, up and down; 2: up and down."""
    norms: int = 2
    """Norms of hidden width in a layer."""
    norm_bias: bool = False
    """LayerNorm (weight and bias) instead of RMSNorm (weight)."""
    qk_norm: Literal["no", "head", "all"] = "no"
    """A norm over each head (one shared weight) or over all heads as one vector."""
    tied: bool = False
    """Default of ``tie_word_embeddings`` if the config does not have the key."""
    head_bias: bool = False
    """The lm_head has a bias."""
    full_every: int = 0
    """Without a config key: every n-th layer is full, the others slide (0: no pattern)."""
    chunked: bool = False
    """Layers without full attention attend within chunks, not within a sliding window."""
    gated_query: bool = False
    """The query projection also makes an output gate of the same width."""
    sinks: bool = False
    """One learned attention sink a head."""
    router_bias: bool = False
    """One bias an expert in the router, or a correction bias beside it."""
    expert_bias: bool = False
    shared_gate: bool = False
    """The shared expert has a gate of ``hidden`` weights."""


_DEEPSEEK_V3 = Family(router_bias=True)
_QWEN_NEXT = Family(qk_norm="head", gated_query=True, shared_gate=True)
FAMILIES: dict[str, Family] = {
    "cohere": Family(norms=1, tied=True),
    "cohere2": Family(norms=1, tied=True, full_every=4),
    "deepseek_v2": Family(),
    "deepseek_v3": _DEEPSEEK_V3,
    "ernie4_5": Family(tied=True),
    "gemma": Family(tied=True),
    "gemma2": Family(norms=4, tied=True, full_every=2),
    "gemma3": Family(norms=4, tied=True, qk_norm="head", full_every=6),
    "gemma3_text": Family(norms=4, tied=True, qk_norm="head", full_every=6),
    "gemma4": Family(norms=4, tied=True, qk_norm="head", full_every=6),
    "gemma4_text": Family(norms=4, tied=True, qk_norm="head", full_every=6),
    "glm4": Family(norms=4, qkv_bias=True, o_follows_bias=False),
    "glm4_moe": Family(o_follows_bias=False, router_bias=True),
    "gpt_oss": Family(qkv_bias=True, o_bias=True, sinks=True, router_bias=True, expert_bias=True),
    "granite": Family(),
    "kimi_k2": _DEEPSEEK_V3,
    "llama": Family(),
    "llama4": Family(chunked=True, full_every=4),
    "llama4_text": Family(chunked=True, full_every=4),
    "mimo_v2_flash": Family(router_bias=True),
    "minimax_m2": Family(qk_norm="all", router_bias=True),
    "ministral": Family(),
    "mistral": Family(),
    "mixtral": Family(),
    "olmo2": Family(qk_norm="all"),
    "olmo3": Family(qk_norm="all", full_every=4),
    "olmoe": Family(qk_norm="all"),
    "phi": Family(
        qkv_bias=True,
        o_bias=True,
        mlp_bias=True,
        mlp_matrices=2,
        norms=1,
        norm_bias=True,
        head_bias=True,
    ),
    "phi3": Family(),
    "qwen2": Family(qkv_bias=True),
    "qwen2_moe": Family(qkv_bias=True, shared_gate=True),
    "qwen3": Family(qk_norm="head"),
    "qwen3_5": _QWEN_NEXT,
    "qwen3_5_moe": _QWEN_NEXT,
    "qwen3_5_moe_text": _QWEN_NEXT,
    "qwen3_5_text": _QWEN_NEXT,
    "qwen3_moe": Family(qk_norm="head"),
    "qwen3_next": _QWEN_NEXT,
    "smollm3": Family(tied=True),
    "starcoder2": Family(
        qkv_bias=True,
        o_bias=True,
        mlp_bias=True,
        mlp_matrices=2,
        norm_bias=True,
        tied=True,
    ),
}


def find_family(model_type: str, where: str) -> Family:
    """Row of ``model_type``; raises ``ValueError`` with the nearest name."""
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    raise ValueError(f"{where}: {unknown('model_type', model_type, sorted(FAMILIES))}")
