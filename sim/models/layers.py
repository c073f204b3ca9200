"""The layers of a model, one record each, and their sum as a :class:`ModelSpec`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import NamedTuple

from kvsim.sim.models.spec import Experts, GroupKind, LayerGroup, ParamCount


class KVShape(NamedTuple):
    """The KV or state that one layer keeps of a sequence (see :class:`LayerGroup`)."""

    kind: GroupKind
    num_heads: int
    num_kv_heads: int
    head_dim: int
    v_head_dim: int
    window: int | None = None
    state_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: what it keeps (``None`` = no attention and no state) and its parameters."""

    shape: KVShape | None
    attention: int
    mlp: int
    norms: int
    stores_kv: bool = True
    num_experts: int = 0
    experts_per_token: int = 0
    expert_params: int = 0
    """Parameters of one routed expert."""
    other: int = 0
    """Parameters that are neither matrix products nor norms (state-space constants)."""
    copied: int = 0
    """Part of ``attention`` that every tensor-parallel rank holds completely."""


def group_layers(layers: list[Layer]) -> tuple[LayerGroup, ...]:
    """Group equal shapes, in order of first appearance, full attention first."""
    attend = Counter(layer.shape for layer in layers if layer.shape is not None)
    store = Counter(layer.shape for layer in layers if layer.shape is not None and layer.stores_kv)
    groups = [
        LayerGroup(
            kind=shape.kind,
            num_layers=count,
            num_kv_layers=store[shape],
            num_heads=shape.num_heads,
            num_kv_heads=shape.num_kv_heads,
            head_dim=shape.head_dim,
            v_head_dim=shape.v_head_dim,
            window=shape.window,
            state_bytes=shape.state_bytes,
        )
        for shape, count in attend.items()
    ]
    order = {"full": 0, "mla": 1, "chunked": 2, "sliding": 3, "state": 4}
    return tuple(sorted(groups, key=lambda group: order[group.kind]))


def shape_of(group: LayerGroup) -> KVShape:
    """Return the shape that all layers of ``group`` have."""
    return KVShape(
        group.kind,
        group.num_heads,
        group.num_kv_heads,
        group.head_dim,
        group.v_head_dim,
        group.window,
        group.state_bytes,
    )


def expand_latents(
    groups: tuple[LayerGroup, ...], head_dim: int, v_head_dim: int
) -> tuple[LayerGroup, ...]:
    """MLA groups as an engine without MLA stores them: K and V of every head."""
    return tuple(
        replace(
            group,
            kind="full",
            num_kv_heads=group.num_heads,
            head_dim=head_dim,
            v_head_dim=v_head_dim,
        )
        if group.kind == "mla"
        else group
        for group in groups
    )


def count_params(layers: list[Layer], embedding: int, head: int, norms: int) -> ParamCount:
    """Sum of the layers plus the parts outside them (``norms``: those after the last layer)."""
    return ParamCount(
        embedding=embedding,
        attention=sum(layer.attention for layer in layers),
        mlp=sum(layer.mlp for layer in layers),
        experts=sum(layer.num_experts * layer.expert_params for layer in layers),
        norms=norms + sum(layer.norms for layer in layers),
        head=head,
        other=sum(layer.other for layer in layers),
        copied=sum(layer.copied for layer in layers),
    )


def find_experts(layers: list[Layer], where: str) -> Experts | None:
    """Find the routed experts, which must be the same in every MoE layer."""
    kinds = Counter(
        (layer.num_experts, layer.experts_per_token, layer.expert_params)
        for layer in layers
        if layer.num_experts
    )
    if not kinds:
        return None
    if len(kinds) > 1:
        raise ValueError(f"{where}: layers differ in their experts ({sorted(kinds)})")
    ((num_experts, per_token, params_each), num_layers) = kinds.most_common(1)[0]
    if per_token > num_experts:
        raise ValueError(f"{where}: {per_token} experts a token out of {num_experts}")
    return Experts(num_layers, num_experts, per_token, params_each)
