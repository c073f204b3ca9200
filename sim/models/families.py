"""What the families of decoder-only models have in their layers, by ``model_type``.

Each row states what the Hugging Face implementation of that type builds (transformers
``models/<model_type>/modeling_<model_type>.py``) and the config cannot say: biases, the number of
norms, tied embeddings by default. Where a config key decides, the key wins.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Family:
    """One row: how a layer of this ``model_type`` is built."""

    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    mlp_matrices: int = 3
    """3: gate, up and down; 2: up and down."""
    norms: int = 2
    """Norms of hidden width in a layer."""
    norm_bias: bool = False
    """LayerNorm (weight and bias) instead of RMSNorm (weight)."""
    qk_norm: Literal["no", "head", "all", "heads"] = "no"
    """A norm over each head (one shared weight), over all heads as one vector, or per head."""
    tied: bool = False
    """Default of ``tie_word_embeddings`` where the config is silent."""
    head_bias: bool = False
    """The lm_head has a bias."""
    default_window_every: int = 0
    """Every n-th layer is full, the others slide, where the config gives no list (0: none)."""


FAMILIES: dict[str, Family] = {
    "llama": Family(),
    "mistral": Family(),
    "qwen2": Family(qkv_bias=True),
}


def find_family(model_type: str, where: str) -> Family:
    """Row of ``model_type``; raises ``ValueError`` with the nearest name."""
    if model_type in FAMILIES:
        return FAMILIES[model_type]
    near = difflib.get_close_matches(model_type, FAMILIES, n=1)
    hint = f"; nearest is {near[0]!r}" if near else ""
    raise ValueError(
        f"{where}: model_type={model_type!r} is not known{hint};"
        f" known: {', '.join(sorted(FAMILIES))}"
    )
