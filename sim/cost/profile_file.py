"""Read and write profile files: JSON whose keys are the fields of :class:`Profile`.

Strict on purpose: a misspelt or missing key, a NaN or a negative coefficient is an error with the
file and the key in it, never a silent default.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from importlib import resources
from pathlib import Path
from typing import TypeVar

from kvsim.sim.cost import profile as terms
from kvsim.sim.cost.measured_points import read_measurement
from kvsim.sim.cost.profile import HoldOut, MeasuredRanges, Profile, TokenTerm
from kvsim.traces.common.arguments import check_path
from kvsim.traces.common.json_values import (
    read_factor,
    read_list,
    read_number,
    read_object,
    read_pair,
    read_positive,
    read_text,
    read_whole,
)
from kvsim.traces.common.names import unknown

FORMAT = "kvsim-profile/1"
_OPTIONAL: dict[str, object] = {
    "tp": 1,
    "layer_floor_us": 0.0,
    "experts": None,
    "all_reduce": {},
    "attention_factor": {},
    "card": {},
    "measurement": {},
}
"""Keys that a profile of one card and a dense model may leave out."""
_OPTIONAL_SHAPE: dict[str, object] = {
    "num_experts": 0,
    "experts_per_token": 0,
    "expert_params": 0,
}
_SIZES = ("num_layers", "hidden_size", "num_heads", "num_kv_heads", "head_dim", "vocab_size")
"""Sizes that every model has; the others are 0 without a dense or a routed part."""
_OPTIONAL_TERM: dict[str, object] = {"tile_tokens": 1, "per_tile_us": 0.0}
_OPTIONAL_PREFILL: dict[str, object] = {"reach_per_request_us": 0.0, "reach_per_past_us": 0.0}
_LEFT_OUT = _OPTIONAL_TERM | _OPTIONAL_PREFILL
"""Keys that a file has only if they are not empty."""
_Section = TypeVar("_Section")


def bundled_profiles() -> tuple[str, ...]:
    """Names of the shipped profiles, sorted."""
    folder = resources.files("kvsim.sim.cost") / "profiles"
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".json")))


def load_bundled_profile(name: str) -> Profile:
    """Shipped profile by name."""
    file = resources.files("kvsim.sim.cost") / "profiles" / f"{name}.json"
    return parse_profile(file.read_text(encoding="utf-8"), f"profile {name}")


def load_profile(path: str | Path) -> Profile:
    """Profile from a file. Raises ``ValueError`` with the file and the wrong key."""
    check_path("path of a profile", path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"profile {path}: cannot be read ({error})") from None
    return parse_profile(text, f"profile {path}")


def parse_profile(text: str, where: str) -> Profile:
    """Profile from JSON text; ``where`` starts every error message."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON ({error})") from None
    expected = ["format", *(field.name for field in dataclasses.fields(Profile))]
    table = _table(_OPTIONAL | read_object(values, where), expected, where)
    if table["format"] != FORMAT:
        raise ValueError(f"{where}: format={table['format']!r}, this version reads {FORMAT!r}")
    kernels = read_object(table["kernels"], f"{where}: kernels")
    hold_out = read_object(table["hold_out"], f"{where}: hold_out")
    assumed = read_list(table["assumed"], f"{where}: assumed")
    factors = read_object(table["attention_factor"], f"{where}: attention_factor")

    def section(cls: type[_Section], key: str) -> _Section:
        return _section(cls, table[key], f"{where}: {key}")

    def word(key: str) -> str:
        return read_text(table[key], f"{where}: {key}")

    return Profile(
        name=word("name"),
        source=word("source"),
        hardware=word("hardware"),
        weight_dtype=word("weight_dtype"),
        kv_dtype=word("kv_dtype"),
        fidelity=word("fidelity"),
        model=_model(table["model"], f"{where}: model"),
        host=section(terms.HostTerm, "host"),
        decode_attention=section(terms.DecodeAttention, "decode_attention"),
        prefill_attention=_section(
            terms.PrefillAttention,
            _OPTIONAL_PREFILL
            | read_object(table["prefill_attention"], f"{where}: prefill_attention"),
            f"{where}: prefill_attention",
        ),
        mixed_attention=section(terms.MixedAttention, "mixed_attention"),
        gemm=_token_term(table["gemm"], f"{where}: gemm"),
        head=_token_term(table["head"], f"{where}: head"),
        kernels={
            key: read_text(value, f"{where}: kernels: {key}") for key, value in kernels.items()
        },
        measured=_ranges(table["measured"], f"{where}: measured"),
        hold_out={
            key: _section(HoldOut, value, f"{where}: hold_out: {key}")
            for key, value in hold_out.items()
        },
        assumed=tuple(read_text(value, f"{where}: assumed") for value in assumed),
        tp=read_positive(table["tp"], f"{where}: tp"),
        layer_floor_us=read_number(table["layer_floor_us"], f"{where}: layer_floor_us"),
        experts=None if table["experts"] is None else section(terms.ExpertTerm, "experts"),
        all_reduce=_all_reduce(table["all_reduce"], f"{where}: all_reduce"),
        attention_factor={
            layout: read_factor(value, f"{where}: attention_factor: {layout}")
            for layout, value in factors.items()
        },
        card=read_object(table["card"], f"{where}: card"),
        measurement=read_measurement(table["measurement"], f"{where}: measurement"),
    )


def dump_profile(profile: Profile) -> str:
    """JSON text of a profile; :func:`parse_profile` reads it back unchanged."""

    def filled(pairs: list[tuple[str, object]]) -> dict[str, object]:
        return {key: value for key, value in pairs if _LEFT_OUT.get(key, ...) != value}

    values = dataclasses.asdict(profile, dict_factory=filled)
    return json.dumps({"format": FORMAT, **values}, indent=1) + "\n"


def _table(value: object, expected: list[str], where: str) -> dict[str, object]:
    """Check for an object with exactly the expected keys."""
    table = read_object(value, where)
    for key in table:
        if key not in expected:
            raise ValueError(f"{where}: {unknown('key', key, expected)}")
    for key in expected:
        if key not in table:
            raise ValueError(f"{where}: {key!r} is missing")
    return table


def _section(cls: type[_Section], value: object, where: str) -> _Section:
    """Read a flat dataclass of numbers (and names) from an object with the same keys."""
    fields = {field.name: field.type for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    table = _table(value, list(fields), where)
    read = {"int": read_whole, "float": read_number, "str": read_text}
    return cls(
        **{key: read[str(kind)](table[key], f"{where}: {key}") for key, kind in fields.items()}
    )


def _model(value: object, where: str) -> terms.ModelShape:
    """Read a model; sizes that costs are divided by must not be 0."""
    table = _OPTIONAL_SHAPE | read_object(value, where)
    shape = _section(terms.ModelShape, table, where)
    for key in _SIZES:
        read_positive(table[key], f"{where}: {key}")
    return shape


def _token_term(value: object, where: str) -> TokenTerm:
    table = _table(
        _OPTIONAL_TERM | read_object(value, where), ["pieces", "knots", *_OPTIONAL_TERM], where
    )
    pieces = [
        read_pair(row, f"{where}: pieces") for row in read_list(table["pieces"], f"{where}: pieces")
    ]
    knots = [
        read_pair(row, f"{where}: knots") for row in read_list(table["knots"], f"{where}: knots")
    ]
    if not pieces and len(knots) < 2:
        raise ValueError(f"{where}: needs at least one piece, or a table of two knots")
    tokens = [read_whole(row[0], f"{where}: knots") for row in knots]
    if any(right <= left for left, right in itertools.pairwise(tokens)):
        raise ValueError(f"{where}: knots must rise in tokens, got {tokens}")
    if any(right[1] < left[1] for left, right in itertools.pairwise(knots)):
        raise ValueError(f"{where}: knots must not fall in time, got {knots}")
    per_tile_us = read_number(table["per_tile_us"], f"{where}: per_tile_us")
    if per_tile_us and (knots or not pieces):
        raise ValueError(f"{where}: per_tile_us={per_tile_us} goes with pieces, not with knots")
    return TokenTerm(
        tuple(pieces),
        tuple((n, row[1]) for n, row in zip(tokens, knots, strict=True)),
        read_positive(table["tile_tokens"], f"{where}: tile_tokens"),
        per_tile_us,
    )


def _all_reduce(value: object, where: str) -> dict[str, TokenTerm]:
    found = {}
    for cards, term in read_object(value, where).items():
        if not cards.isdecimal() or int(cards) < 2:
            raise ValueError(f"{where}: {cards!r} is not a number of cards")
        found[cards] = _token_term(term, f"{where}: {cards}")
        if found[cards].per_tile_us:
            raise ValueError(f"{where}: {cards}: per_tile_us is of tokens, here are bytes")
    return found


def _ranges(value: object, where: str) -> MeasuredRanges:
    fields = [field.name for field in dataclasses.fields(MeasuredRanges)]
    table = _table(value, fields, where)
    ranges: dict[str, tuple[int, int] | None] = {}
    for key in fields:
        if table[key] is None:
            ranges[key] = None
            continue
        low, high = read_pair(table[key], f"{where}: {key}")
        bounds = (read_whole(low, f"{where}: {key}"), read_whole(high, f"{where}: {key}"))
        if bounds[0] > bounds[1]:
            raise ValueError(f"{where}: {key}={bounds} is empty")
        ranges[key] = bounds
    return MeasuredRanges(**ranges)
