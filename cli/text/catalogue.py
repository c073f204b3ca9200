"""What is there to choose from: policies, presets, models, hardware, formats, schemas, a line each.

Nothing is listed by hand: policies come from the registries that scenario keys accept (plug-ins
too), with the first sentence of their docstring; the rest from the files that are shipped.
"""

from __future__ import annotations

import re
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Final

from kvsim.policies.option_keys import name_of, rule_of
from kvsim.sim.comparison.presets import COMPARISON_PRESETS
from kvsim.sim.comparison.scenarios import ALIASES
from kvsim.sim.cost.profile_file import bundled_profiles, load_bundled_profile
from kvsim.sim.documents import document_names, document_of
from kvsim.sim.documents.choices import Choice
from kvsim.sim.hardware import bundled_hardware, load_hardware
from kvsim.sim.models import bundled_models, load_model
from kvsim.sim.scenario.preset import load_preset, preset_names
from kvsim.sim.scenario.scenario import Scenario
from kvsim.traces.common.text import number
from kvsim.traces.formats import READERS
from kvsim.traces.formats.refused import RefusedFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kvsim.policies.option_keys import Rule
    from kvsim.policies.registry import Registry

_HUB: Final = "https://huggingface.co/"
NO_DOCSTRING: Final = "no docstring"
_ELSEWHERE: Final = "See the module docstring"
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")


def policies() -> list[Choice]:
    """Policies by the scenario key that takes them."""
    entries = []
    for table in fields(Scenario):
        if table.name == "preset":
            continue
        for item in fields(getattr(Scenario(), table.name)):
            use = f"{table.name}.{name_of(item)}"
            for name, policy in _choices(rule_of(item)).items():
                oracle = "uses oracle knowledge" if getattr(policy, "uses_oracle", False) else ""
                what = policy if isinstance(policy, str) else summary_of(name, policy)
                entries.append(Choice(use=use, name=name, what=what, verified=oracle))
    return entries


def _choices(rule: Rule) -> Mapping[str, object]:
    """What a key's names stand for: policies, or sentences; empty where it takes no names."""
    if rule.registry is not None:
        return {name: _policy(rule.registry, name) for name in rule.registry.names()}
    return rule.named or {}


def _policy(registry: Registry[object], name: str) -> object:
    """A policy as its author wrote it, or the sentence that says why a plug-in cannot be loaded."""
    try:
        return registry.find_unguarded(name)
    except ValueError as error:
        return str(error)


def presets() -> list[Choice]:
    """Scenario presets, then what ``kvsim compare`` takes beside them."""
    scenarios = [load_preset(name) for name in preset_names()]
    return [
        *(
            Choice(use="--scenario", name=one.name, what=one.engine, verified=one.verified)
            for one in scenarios
        ),
        *(
            Choice(
                use="kvsim compare --allocators, beside presets",
                name=name,
                what=alias.what,
                verified="",
            )
            for name, alias in ALIASES.items()
        ),
        *(
            Choice(
                use="kvsim compare --preset", name=one.name, what=one.summary, verified=one.verified
            )
            for one in COMPARISON_PRESETS.values()
        ),
    ]


def models() -> list[Choice]:
    """Bundled models: parameters, KV a token in the model's own format, whose config it is."""
    entries = []
    for name in bundled_models():
        model = load_model(name)
        what = (
            f"{number(model.num_params / 1e9, 3)} B parameters, {model.num_layers} layers, "
            f"{number(model.kv_bytes_per_token() / 1024)} KiB KV a token"
        )
        repository = model.source.removeprefix(_HUB).partition("/blob/")[0]
        entries.append(Choice(use="--model", name=name, what=what, verified=repository))
    return entries


def hardware() -> list[Choice]:
    """Bundled cards, and whether their step cost is fitted or from the datasheet."""
    entries = []
    for name in bundled_hardware():
        card = load_hardware(name)
        what = (
            f"{card.product}, {card.total_gib:.1f} GiB, "
            f"{card.bandwidth_bytes_per_s / 1e9:,.0f} GB/s"
        )
        profiled = name in bundled_profiles()
        cost = load_bundled_profile(name).fidelity if profiled else "datasheet"
        entries.append(Choice(use="--hardware", name=name, what=what, verified=f"cost: {cost}"))
    return entries


def formats() -> list[Choice]:
    """Trace formats, found by content."""
    return [
        Choice(
            use="--format",
            name=reader.name,
            what=reader.title,
            verified="known, and refused with the reason"
            if isinstance(reader, RefusedFormat)
            else "",
        )
        for reader in READERS
    ]


def schemas() -> list[Choice]:
    """JSON documents by the name that ``kvsim schema`` takes."""
    found = [(name, document_of(name)) for name in document_names()]
    return [
        Choice(use="kvsim schema", name=name, what=one.origin.replace("`", ""), verified=one.schema)
        for name, one in found
    ]


KINDS: Final[dict[str, Callable[[], list[Choice]]]] = {
    "policies": policies,
    "presets": presets,
    "models": models,
    "hardware": hardware,
    "formats": formats,
    "schemas": schemas,
}


def summary_of(name: str, policy: object) -> str:
    """First sentence of a policy's docstring.

    A factory without one stands for the class of that ``name`` in its module; a class that refers
    to its module's docstring gets the first sentence of that. A plug-in may have no docstring.
    """
    module = sys.modules[getattr(policy, "__module__", type(policy).__module__)]
    documented: object = policy
    if not policy.__doc__:
        named = (one for one in vars(module).values() if getattr(one, "name", None) == name)
        documented = next(named, policy)
    text = documented.__doc__ or ""
    if text.startswith(_ELSEWHERE):
        text = sys.modules[str(documented.__module__)].__doc__ or ""
    paragraph = " ".join(re.split(r"\n\s*\n", text.strip())[0].split())
    sentence = _SENTENCE_END.split(paragraph)[0].replace("``", "").removesuffix(".")
    return sentence or NO_DOCSTRING
