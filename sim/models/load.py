"""Find a model: a bundled name, a ``config.json``, or a folder that holds one."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsim.sim.models.decoder import parse_decoder
from kvsim.sim.models.falcon import parse_falcon
from kvsim.sim.models.gemma3n import parse_gemma3n
from kvsim.sim.models.gpt2 import parse_gpt2
from kvsim.sim.models.hybrid import parse_jamba, parse_mamba_attention, parse_nemotron_h
from kvsim.sim.models.opt import parse_opt
from kvsim.sim.models.reader import ConfigReader, read_config
from kvsim.traces.common.arguments import check_kind
from kvsim.traces.common.names import meant

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.models.spec import ModelSpec

ENCODER_DECODERS = ("bart", "marian", "mbart", "mt5", "pegasus", "t5", "umt5", "whisper")
PARSERS: dict[str, Callable[[ConfigReader, str, str], ModelSpec]] = {
    "bamba": parse_mamba_attention,
    "falcon": parse_falcon,
    "gemma3n": parse_gemma3n,
    "gemma3n_text": parse_gemma3n,
    "gpt2": parse_gpt2,
    "gpt_bigcode": parse_gpt2,
    "granitemoehybrid": parse_mamba_attention,
    "jamba": parse_jamba,
    "nemotron_h": parse_nemotron_h,
    "opt": parse_opt,
}
"""Families with a separate parser; :func:`parse_decoder` reads all others."""


def bundled_models() -> tuple[str, ...]:
    """Names of the bundled models, sorted."""
    folder = resources.files("kvsim.sim.models") / "configs"
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".json")))


def find_bundled(repository: str) -> str | None:
    """Bundled name of a Hugging Face repository (``org/Name-Instruct`` too), ``None`` if none."""
    wanted = _plain(repository)
    for name in bundled_models():
        source = _entry(name)["source"].partition("/blob/")[0]
        if wanted in (name, _plain(source)):
            return name
    return None


def _plain(repository: str) -> str:
    """Last part of a repository's name without the words that leave the shapes alone."""
    short = repository.rstrip("/").rsplit("/", 1)[-1].lower()
    for part in ("meta-", "-instruct", "-chat", "-hf", "-it", "-base"):
        short = short.replace(part, "")
    return short


def load_model(model: str | Path) -> ModelSpec:
    """Model by bundled name or from a ``config.json`` (the file or its folder).

    Raises ``ValueError`` in one sentence: an unknown name with the nearest one, or the wrong key.
    """
    check_kind("model", model, str | Path, "a name, or the path of a config.json or its folder")
    name = str(model)
    known = bundled_models()
    if name.lower() in known:
        return _load_bundled(name.lower())
    path = Path(model)
    if name and path.exists():
        folder = path if path.is_dir() else path.parent
        return parse_config(read_config(path), folder.resolve().name or name, str(path))
    raise ValueError(
        f"model {name!r} is neither a file nor a bundled model"
        + meant(name, known, "bundled", "see kvsim list models")
    )


def parse_config(config: ConfigReader, name: str, source: str) -> ModelSpec:
    """Model of an already read config; multimodal ones give their text part."""
    config, notices = text_part(config)
    model_type = config.text("model_type")
    if config.flag("is_encoder_decoder") or model_type in ENCODER_DECODERS:
        raise ValueError(
            f"{config.where}: {model_type or 'this model'} is an encoder-decoder; only decoder-only"
            " models have the KV cache simulated here"
        )
    if not model_type:
        raise ValueError(f"{config.where}: 'model_type' is missing, so the layers are unknown")
    spec = PARSERS.get(model_type, parse_decoder)(config, name, source)
    if not notices:
        return spec
    return replace(spec, notices=spec.notices + notices)


def text_part(config: ConfigReader) -> tuple[ConfigReader, tuple[str, ...]]:
    """Merge the nested text config of a multimodal model over its outer keys."""
    for key in ("text_config", "llm_config", "language_config"):
        inner = config.section(key)
        if inner is None:
            continue
        merged = {**config.values, **inner.values}
        kept = [part for part in ("vision_config", "audio_config") if config.has(part)]
        left_out = " and ".join(part.removesuffix("_config") for part in kept)
        notices = (f"the {left_out} part is not counted",) if kept else ()
        return ConfigReader(merged, f"{config.where}: {key}"), notices
    return config, ()


def _load_bundled(name: str) -> ModelSpec:
    entry = _entry(name)
    config = ConfigReader(entry["config"], f"bundled model {name}")
    return parse_config(config, name, entry["source"])


def _entry(name: str) -> dict[str, Any]:
    """Read the file of a bundled model: its ``config`` and its ``source``."""
    file = resources.files("kvsim.sim.models") / "configs" / f"{name}.json"
    entry: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return entry
