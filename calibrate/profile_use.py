"""The step cost of a profile for just what was measured: its model, its dtypes, its card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.sim.cost.profile_file import load_profile
from kvsim.sim.cost.sources import build_cost
from kvsim.sim.hardware import load_hardware
from kvsim.sim.models import bundled_models, load_model

if TYPE_CHECKING:
    from kvsim.sim.cost.profile import Profile
    from kvsim.sim.cost.profile_cost import ProfileCost
    from kvsim.sim.models import ModelSpec


def cost_of_profile(path: Path, model: str | None = None) -> ProfileCost:
    """Cost of a synchronous engine that runs what the profile measured.

    ``model``: where the profile's own name is not a bundled one. Raises ``ValueError`` with the
    file and what is wrong.
    """
    profile = load_profile(path)
    return build_cost(
        str(path),
        model_of_profile(profile, path, model),
        load_hardware(str(path)),
        tp=profile.tp,
        weight_dtype=profile.weight_dtype,
        kv_dtype=profile.kv_dtype,
    )


def model_of_profile(profile: Profile, path: Path, model: str | None = None) -> ModelSpec:
    """Model that was measured; ``ValueError`` where it is not bundled and none was given."""
    name = profile.model.name
    if not model and name.lower() not in bundled_models() and not Path(name).exists():
        raise ValueError(
            f"{path} is of a model {name!r}, which is not bundled: give its config.json (--model)"
        )
    return load_model(model or name)
