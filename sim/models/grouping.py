"""Layer groups as the engine's block tables see them: equal numbers of layers a group.

vLLM 0.32.0 (``v1/core/kv_cache_utils.py``) gives every KV group the same number of layers, so that
a block of any group has the same size. The smallest group sets the number, unless the largest has
less than 1.5 times as many layers. Larger groups are split; the last part is padded with layers
that hold nothing. Groups are in the order of their first layers: gpt-oss and Gemma begin with a
window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvsim.sim.models.layers import shape_of

if TYPE_CHECKING:
    from kvsim.sim.models.spec import LayerGroup, ModelSpec

NEAR_EQUAL = 1.5


@dataclass(frozen=True, slots=True)
class EngineGroup:
    """One block table: ``num_layers`` layers like ``layers`` (padding left out)."""

    layers: LayerGroup
    num_layers: int


@dataclass(frozen=True, slots=True)
class EngineGroups:
    """Block tables of a model in engine order; a block holds ``layers_per_group`` layers' KV."""

    groups: tuple[EngineGroup, ...]
    layers_per_group: int

    @property
    def padding_layers(self) -> int:
        """Layers that exist in the block size only."""
        used = sum(group.num_layers for group in self.groups)
        return len(self.groups) * self.layers_per_group - used


def engine_groups(model: ModelSpec) -> EngineGroups:
    """Split the model's storing layers into block tables of equal height, in engine order."""
    shapes = [layer.shape for layer in model.layers if layer.stores_kv]
    storing = [group for group in model.groups if group.num_kv_layers]
    storing.sort(key=lambda group: shapes.index(shape_of(group)))
    counts = [group.num_kv_layers for group in storing]
    if not counts:
        return EngineGroups((), 0)
    height = max(counts) if max(counts) < NEAR_EQUAL * min(counts) else min(counts)
    tables = []
    for group in storing:
        num_tables = -(-group.num_kv_layers // height)
        for index in range(num_tables):
            layers = len(range(index, group.num_kv_layers, num_tables))
            tables.append(EngineGroup(group, layers))
    return EngineGroups(tuple(tables), height)
