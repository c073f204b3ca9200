"""A model with changed attention: other KV heads or other windows, the same weights.

For what-if questions about the cache alone: parameters stay those of the model (same size class).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvsim.sim.models.layers import KVShape, group_layers

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.models.spec import ModelSpec


def reshape(model: ModelSpec, change: Callable[[KVShape, int], KVShape]) -> ModelSpec:
    """Model whose attending layers keep what ``change(shape, layer index)`` says; states stay."""
    layers = [
        replace(layer, shape=change(layer.shape, index))
        if layer.shape is not None and layer.shape.kind != "state"
        else layer
        for index, layer in enumerate(model.layers)
    ]
    return replace(model, layers=tuple(layers), groups=group_layers(layers))


def full_heads(model: ModelSpec, heads: int) -> Callable[[KVShape, int], KVShape]:
    """Change to full attention with so many KV heads, each as wide as the model's own."""

    def change(shape: KVShape, _index: int) -> KVShape:
        width = model.expanded[0].v_head_dim if model.expanded else shape.head_dim
        return KVShape("full", shape.num_heads, heads, width, width)

    return change


def with_kv_heads(model: ModelSpec, heads: int) -> ModelSpec:
    """Model whose layers all attend fully with ``heads`` KV heads; its name and notices say so.

    Raises
    ------
    ValueError
        Where the heads do not divide the query heads.
    """
    if model.num_heads % heads:
        raise ValueError(
            f"model.num_kv_heads = {heads} does not divide the {model.num_heads} attention heads "
            f"of {model.name}"
        )
    notice = (
        f"what if {model.name} attended with {heads} KV heads in all layers? its weights are left "
        "as they are"
    )
    return replace(
        reshape(model, full_heads(model, heads)),
        name=f"{model.name} of {heads} KV heads",
        num_kv_heads=heads,
        notices=(*model.notices, notice),
        expanded=(),
    )
