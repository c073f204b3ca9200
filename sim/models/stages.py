"""A model cut into pipeline ranks, unevenly, and into expanded latents.

vLLM (``distributed/utils.py``, ``get_pp_indices``) gives every rank ``layers // pp`` layers and the
rest to the ranks before the last, from the back: the last rank has the head already, 61 layers on
four ranks are 15, 15, 16, 15. The first rank holds the embedding, the last the head; a tied
embedding lies on both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvsim.sim.models.layers import KVShape, count_params, find_experts, group_layers

if TYPE_CHECKING:
    from kvsim.sim.models.layers import Layer
    from kvsim.sim.models.spec import ModelSpec, ParamCount


@dataclass(frozen=True, slots=True)
class Stage:
    """One pipeline rank: layers ``first`` to ``last`` (both included) as a model of their own."""

    index: int
    first: int
    last: int
    model: ModelSpec


def stage_sizes(num_layers: int, pp: int) -> tuple[int, ...]:
    """Layers of each pipeline rank, as vLLM splits them."""
    if not 1 <= pp <= num_layers:
        raise ValueError(f"pp={pp} is not in 1..{num_layers}, the number of layers")
    sizes = [num_layers // pp] * pp
    for back in range(2, num_layers % pp + 2):
        sizes[-back] += 1
    return tuple(sizes)


def pipeline_stages(model: ModelSpec, pp: int) -> tuple[Stage, ...]:
    """Pipeline ranks of ``model``. Raises ``ValueError`` where it cannot be split."""
    sizes = stage_sizes(model.num_layers, pp)
    if pp == 1:
        return (Stage(0, 0, model.num_layers - 1, model),)
    if any(group.num_kv_layers != group.num_layers for group in model.groups):
        raise ValueError(
            f"pp={pp} cannot split {model.name}: its layers read the KV cache of earlier layers,"
            " which would lie on another rank"
        )
    stages, first = [], 0
    for index, size in enumerate(sizes):
        layers = list(model.layers[first : first + size])
        part = replace(
            model,
            num_layers=size,
            groups=group_layers(layers),
            params=_stage_params(model, layers, is_first=index == 0, is_last=index == pp - 1),
            experts=find_experts(layers, model.name),
            layers=tuple(layers),
        )
        stages.append(Stage(index, first, first + size - 1, part))
        first += size
    return tuple(stages)


def _stage_params(
    model: ModelSpec, layers: list[Layer], *, is_first: bool, is_last: bool
) -> ParamCount:
    """Parameters of some layers and of what stands before the first and after the last."""
    whole, inside = model.params, count_params(list(model.layers), 0, 0, 0)
    part = count_params(
        layers,
        embedding=whole.embedding if is_first or (is_last and model.tied_embeddings) else 0,
        head=whole.head if is_last else 0,
        norms=whole.norms - inside.norms if is_last else 0,
    )
    return replace(part, other=part.other + whole.other - inside.other) if is_first else part


def expand_latents_of(model: ModelSpec) -> ModelSpec:
    """MLA model as an engine without MLA stores it: K and V of every head."""
    if not model.expanded:
        raise ValueError(f"{model.name} has no latent attention (MLA) that could be expanded")
    wide = next(group for group in model.expanded if group.kind == "full")
    shape = KVShape("full", wide.num_heads, wide.num_kv_heads, wide.head_dim, wide.v_head_dim)
    layers = tuple(
        replace(layer, shape=shape)
        if layer.shape is not None and layer.shape.kind == "mla"
        else layer
        for layer in model.layers
    )
    notice = "latents are expanded: K and V of every head are stored (--mla expanded)"
    return replace(
        model,
        groups=model.expanded,
        expanded=(),
        layers=layers,
        notices=(*model.notices, notice),
    )
