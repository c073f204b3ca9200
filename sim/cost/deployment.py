"""The deployment to which a profile is scaled, and whether the profile was measured for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvsim.sim.cost.profile import ModelShape

if TYPE_CHECKING:
    from kvsim.sim.cost.profile import Profile
    from kvsim.sim.hardware import HardwareSpec
    from kvsim.sim.models import ModelSpec


@dataclass(frozen=True, slots=True)
class Deployment:
    """The target of a scaled profile: the model, the card, the split and the dtypes."""

    model: ModelSpec
    hardware: HardwareSpec
    tp: int = 1
    weight_dtype: str = "bf16"
    kv_dtype: str = "bf16"
    attention_factor: float = 1.0
    """Decode attention of the used memory layout and block size, relative to the profile's."""

    def matches(self, profile: Profile) -> bool:
        """Whether the profile was made for exactly this, so that no term is derived."""
        model, shape = self.model, profile.model
        same_shape = (
            len(model.groups) == 1
            and model.groups[0].kind == "full"
            and model_shape(model) == replace(shape, name=model.name)
        )
        dtypes = (self.weight_dtype, self.kv_dtype) == (profile.weight_dtype, profile.kv_dtype)
        return same_shape and dtypes and self.tp == profile.tp


def model_shape(model: ModelSpec) -> ModelShape:
    """Shape of the layer of ``model``, in the form that profiles use."""
    experts = model.experts
    routed = experts is not None and experts.num_layers == model.num_layers
    return ModelShape(
        name=model.name,
        num_layers=model.num_layers,
        hidden_size=model.hidden_size,
        num_heads=model.num_heads,
        num_kv_heads=model.num_kv_heads,
        head_dim=model.head_dim,
        intermediate_size=0 if routed else model.intermediate_size,
        vocab_size=model.vocab_size,
        num_experts=0 if experts is None else experts.num_experts,
        experts_per_token=0 if experts is None else experts.per_token,
        expert_params=0 if experts is None else experts.params_each,
    )
