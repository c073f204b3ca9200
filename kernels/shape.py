"""Dimensions of a decoder, as plain numbers: all that a kernel needs to know of a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """One decoder-only transformer (Llama form: RMSNorm, RoPE, gated MLP, GQA).

    ``num_experts`` > 0 makes the MLP a mixture: each token goes through ``experts_per_token`` of
    them, each as wide as ``intermediate_size``.

    Raises
    ------
    ValueError
        Where a dimension is below 1, or heads or experts do not fit each other.
    """

    num_layers: int
    hidden_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    num_experts: int = 0
    experts_per_token: int = 0

    def __post_init__(self) -> None:
        for name in (
            "num_layers",
            "hidden_size",
            "num_heads",
            "num_kv_heads",
            "head_dim",
            "intermediate_size",
            "vocab_size",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_heads is {self.num_heads}; it must be a multiple of num_kv_heads "
                f"(={self.num_kv_heads})"
            )
        if not 0 <= self.experts_per_token <= self.num_experts or (
            self.num_experts and not self.experts_per_token
        ):
            raise ValueError(
                f"experts_per_token is {self.experts_per_token}; allowed are 1 to num_experts "
                f"(={self.num_experts}), or 0 without experts"
            )

    @property
    def qkv_size(self) -> int:
        """Rows of the fused query, key and value projection."""
        return (self.num_heads + 2 * self.num_kv_heads) * self.head_dim

    @property
    def layer_weights(self) -> int:
        """Weights of one layer's projections, all experts included."""
        mlp = 3 * self.hidden_size * self.intermediate_size
        if self.num_experts:
            mlp = mlp * self.num_experts + self.hidden_size * self.num_experts
        attention = self.hidden_size * (self.qkv_size + self.num_heads * self.head_dim)
        return attention + mlp

    def kv_bytes_per_token(self, element_bytes: int) -> int:
        """Bytes of K and V of one token in one layer."""
        return 2 * self.num_kv_heads * self.head_dim * element_bytes
