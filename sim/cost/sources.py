"""Sources of a step cost: a profile of the card, its datasheet, or numbers given by hand."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.sim.cost.datasheet import ALL_ASSUMED, datasheet_profile
from kvsim.sim.cost.deployment import Deployment
from kvsim.sim.cost.profile import WARN_MEDIAN
from kvsim.sim.cost.profile_file import bundled_profiles, load_bundled_profile, load_profile
from kvsim.sim.cost.scale import scale_profile
from kvsim.sim.models.dtypes import weight_format
from kvsim.traces.common.names import unknown
from kvsim.traces.common.text import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.cost.profile import ModelShape, Profile
    from kvsim.sim.cost.profile_cost import ProfileCost
    from kvsim.sim.hardware import HardwareSpec
    from kvsim.sim.models import ModelSpec


@cache
def shipped_profiles() -> tuple[Profile, ...]:
    """All shipped profiles, by name."""
    return tuple(load_bundled_profile(name) for name in bundled_profiles())


def shipped_cards() -> tuple[str, ...]:
    """Cards with a shipped profile, sorted."""
    return tuple(sorted({profile.hardware for profile in shipped_profiles()}))


def nearest_profile(card: str, model: ModelSpec | None) -> Profile | None:
    """Shipped profile of ``card`` with the layer nearest to that of ``model``.

    A model with routed experts gets a profile with experts if there is one; other models get one
    without. Then the nearest number of weights used by a token in a layer decides. Without a model:
    the profile with the card's name. ``None`` if no profile is shipped for the card.
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
    """Weights of a layer that one token uses."""
    return shape.layer_params + shape.experts_per_token * shape.expert_params


def cost_source_names() -> tuple[str, ...]:
    """Return the sources that ``build_cost`` accepts besides the path of a profile file."""
    return ("auto", "profile", "datasheet", *bundled_profiles())


def build_cost(
    source: str,
    model: ModelSpec,
    hardware: HardwareSpec,
    *,
    tp: int = 1,
    overlap: bool = False,
    weight_dtype: str = "auto",
    kv_dtype: str = "auto",
    attention_factor: float = 1.0,
) -> ProfileCost:
    """Step cost of ``model`` on ``tp`` cards of ``hardware``.

    ``source``: ``auto`` (the profile that the card was read from, else the shipped profile of the
    card whose layer is nearest to the model's, else the card's datasheet), ``profile``,
    ``datasheet``, a shipped profile's name, or the path of a profile file. ``overlap``: the engine
    schedules asynchronously. ``attention_factor``: decode attention of the memory layout in use
    against that of the profile (1 = as measured). The ``linear`` source needs no model: see
    :class:`kvsim.sim.cost.step_cost.LinearCost`. Raises ``ValueError`` with the choices.
    """
    model.check_tp(tp)
    if not 0 < attention_factor < math.inf:
        raise ValueError(f"attention_factor={attention_factor} must be finite and > 0")
    profile = find_profile(source, hardware, model)
    deployment = Deployment(
        model=model,
        hardware=hardware,
        tp=tp,
        weight_dtype=_weight_dtype(model, weight_dtype),
        kv_dtype=model.kv_dtype(kv_dtype),
        attention_factor=attention_factor,
    )
    return scale_profile(profile, deployment, name=_describe(profile, deployment), overlap=overlap)


def find_profile(source: str, hardware: HardwareSpec, model: ModelSpec | None = None) -> Profile:
    """Profile of ``source`` for this card and model (see :func:`build_cost`)."""
    if source in ("auto", "profile") and hardware.profile:
        return load_profile(Path(hardware.profile))
    nearest = nearest_profile(hardware.name, model)
    if source == "datasheet" or (source == "auto" and nearest is None):
        return datasheet_profile(hardware)
    if source in ("auto", "profile"):
        if nearest is None:
            raise ValueError(
                f"no profile is shipped for {hardware.name}; there is one for"
                f" {', '.join(shipped_cards())} (source 'datasheet' works for every card)"
            )
        return nearest
    if source in bundled_profiles():
        profile = load_bundled_profile(source)
    elif source.endswith(".json") or Path(source).is_file():
        profile = load_profile(Path(source))
    else:
        names = cost_source_names()
        more = "or the path of a profile .json"
        raise ValueError(unknown("cost source", source, (*names, "linear"), more))
    if profile.hardware != hardware.name:
        raise ValueError(
            f"profile {profile.name} is of {profile.hardware}, but the hardware is {hardware.name}"
        )
    return profile


def own_attention_factor(source: str, hardware: HardwareSpec, layout: str) -> float | None:
    """Factor that a source knows for a memory layout (``contiguous``, ``paged-16``), else None."""
    return find_profile(source, hardware).attention_factor.get(layout)


def error_notes(profile: Profile) -> tuple[str, ...]:
    """A sentence about the blocks with large errors, if there are any."""
    poor = {
        block: percent(x.median, WARN_MEDIAN, digits=0)
        for block, x in profile.hold_out.items()
        if x.median > WARN_MEDIAN
    }
    if not poor:
        return ()
    return (
        f"step costs of {_listed(list(poor))} were "
        f"{_listed([text.removesuffix(' %') for text in poor.values()])} % off, at the median, on "
        f"points that the fit of {profile.name} had not seen",
    )


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _weight_dtype(model: ModelSpec, weight_dtype: str) -> str:
    if weight_dtype == "auto":
        return weight_format(model.weight_dtype or model.dtype).name
    return weight_format(weight_dtype).name


def _target(profile: Profile, deployment: Deployment) -> str:
    """The model, and the split and dtypes if they differ from the profile's."""
    words = [deployment.model.name]
    if deployment.tp > 1:
        words.append(f"tp {deployment.tp}")
    if deployment.weight_dtype != profile.weight_dtype:
        words.append(f"{deployment.weight_dtype} weights")
    if deployment.kv_dtype != profile.kv_dtype:
        words.append(f"{deployment.kv_dtype} KV")
    return " with ".join((words[0], " and ".join(words[1:]))) if words[1:] else words[0]


def _describe(profile: Profile, deployment: Deployment) -> str:
    """Name for outputs: source, fidelity, and what was derived."""
    if profile.name.endswith("-datasheet"):
        return f"{deployment.hardware.name} datasheet ({ALL_ASSUMED})"
    words = profile.fidelity
    if deployment.attention_factor != 1:
        words += f"; decode attention x {deployment.attention_factor:.4g} for its memory layout"
    if not deployment.matches(profile):
        words += f"; derived for {_target(profile, deployment)} from {profile.model.name}"
    return f"{profile.name} profile ({words})"
