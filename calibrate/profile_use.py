"""The step cost of a profile for just what was measured: its model, its dtypes, its card."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.cost_sources import build_cost
from kvsim.sim.hardware import load_hardware
from kvsim.sim.models import load_model
from kvsim.sim.profile_file import load_profile

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.sim.profile_cost import ProfileCost


def cost_of_profile(path: Path, model: str | None = None) -> ProfileCost:
    """Cost of a synchronous engine that runs what the profile measured.

    ``model``: where the profile's own name is not a bundled one. Raises ``ValueError`` with the
    file and what is wrong.
    """
    profile = load_profile(path)
    return build_cost(
        str(path),
        load_model(model or profile.model.name),
        load_hardware(str(path)),
        tp=profile.tp,
        weight_dtype=profile.weight_dtype,
        kv_dtype=profile.kv_dtype,
    )
