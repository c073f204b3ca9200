"""A reference profile to be filled in: the shape of a bundled model on a card."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvsim.sim.cost.datasheet import datasheet_profile
from kvsim.sim.cost.deployment import model_shape
from kvsim.sim.hardware import load_hardware
from kvsim.sim.models import load_model
from kvsim.sim.models.dtypes import weight_format

if TYPE_CHECKING:
    from kvsim.sim.cost.profile import Profile


def reference_profile(model_name: str, hardware_name: str) -> Profile:
    """Datasheet profile of a card whose layer is that of a model, in the model's own dtypes.

    Only the shape, the card and the dtypes are worth keeping: every time is of another layer.
    Raises ``ValueError`` on an unknown model or card, and on models whose layers differ.
    """
    model, hardware = load_model(model_name), load_hardware(hardware_name)
    if model.experts is not None or len(model.groups) != 1 or model.groups[0].kind != "full":
        msg = (
            f"model {model.name} has experts, windows or latents: one step form does not tell its "
            "layers apart; dense models with full attention alone can be fitted to a log"
        )
        raise ValueError(msg)
    return replace(
        datasheet_profile(hardware),
        model=model_shape(model),
        weight_dtype=weight_format(model.weight_dtype or model.dtype).name,
        kv_dtype=model.kv_dtype(),
    )
