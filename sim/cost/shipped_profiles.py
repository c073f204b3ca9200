"""Which shipped profile is used for a card and a model: the one of the nearest layer."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from kvsim.sim.cost.profile_file import bundled_profiles, load_bundled_profile

if TYPE_CHECKING:
    from kvsim.sim.cost.profile import ModelShape, Profile
    from kvsim.sim.models import ModelSpec


@cache
def shipped_profiles() -> tuple[Profile, ...]:
    """All shipped profiles, by name."""
    return tuple(load_bundled_profile(name) for name in bundled_profiles())


def shipped_cards() -> tuple[str, ...]:
    """Cards with a shipped profile, sorted."""
    return tuple(sorted({profile.hardware for profile in shipped_profiles()}))


def nearest_profile(card: str, model: ModelSpec | None) -> Profile | None:
    """Shipped profile of ``card`` whose layer is nearest to that of ``model``.

    Models with routed experts take a profile with experts where there is one, others one without;
    then the nearest number of weights that a token meets in a layer. Without a model: the profile
    that bears the card's name. ``None`` where nothing is shipped for the card.
    """
    ours = [profile for profile in shipped_profiles() if profile.hardware == card]
    if not ours:
        return None
    if model is None:
        return min(ours, key=lambda profile: (profile.name != card, profile.name))
    routed, layer_params = model.experts is not None, model.active_layer_params / model.num_layers

    def distance(profile: Profile) -> tuple[bool, float, str]:
        other_kind = (profile.experts is not None) != routed
        return other_kind, abs(math.log(_met(profile.model) / layer_params)), profile.name

    return min(ours, key=distance)


def _met(shape: ModelShape) -> int:
    """Weights of a layer that one token meets."""
    return shape.layer_params + shape.experts_per_token * shape.expert_params
