"""Tables of LLMServingSim's vLLM profiler (times in us), mixed batches included.

``<card>__<owner>__<model>__<dtype>__tp<n>__<table>.csv.gz`` with table one of dense, attention,
per_sequence, moe. A layer is the sum of its products and small kernels. The older profiler's
``v0__`` tables and the tables of unequal contexts (``skew``) are not read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kvsim.calibrate.sources.cards import CARDS, one_card
from kvsim.calibrate.sources.measurements import Measurements
from kvsim.calibrate.sources.request import plain_name
from kvsim.calibrate.sources.table import points_of, read_table

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.calibrate.sources.points import Points
    from kvsim.calibrate.sources.request import ReadRequest

_NAME: Final = re.compile(
    r"^(?!v0__|bench__)(?P<card>\w+?)__(?P<model>.+)__(?P<dtype>\w+)__tp(?P<tp>\d+)"
    r"__(?P<table>dense|attention|per_sequence|moe)\.csv(\.gz)?$"
)
_PER_LAYER: Final = {
    "layernorm": 2, "qkv_proj": 1, "qk_norm": 1, "rotary_emb": 1, "o_proj": 1,
    "gate_up_proj": 1, "act_fn": 1, "down_proj": 1,
}  # fmt: skip
"""How often a layer runs each kernel; a table has those of its model."""


def read(request: ReadRequest) -> Measurements:
    """Points of ``request.model`` on ``request.tp`` ranks. Raises ``ValueError``: none fit."""
    named = [(file, found) for file in request.files() if (found := _NAME.search(file.name))]
    if not named:
        raise ValueError(
            f"{request.where}: no LLMServingSim table by its file name; names are"
            " CARD__OWNER__MODEL__DTYPE__tpN__TABLE.csv.gz with TABLE dense, attention,"
            " per_sequence or moe"
        )
    wanted = plain_name(request.model.name)
    mine = [
        (file, found)
        for file, found in named
        if plain_name(found["model"]) == wanted
        and int(found["tp"]) == request.tp
        and found["dtype"] == "bf16"
    ]
    if not mine:
        there = sorted({f"{plain_name(m['model'])} tp {m['tp']} {m['dtype']}" for _, m in named})
        raise ValueError(
            f"{request.where}: no bf16 tables of {request.model.name} at tp={request.tp}; there"
            f" are {', '.join(there)}"
        )
    card = one_card({found["card"] for _, found in mine}, request.hardware, request.where)
    blocks: dict[str, Any] = {}
    for file, found in mine:
        if CARDS.get(found["card"]) == card:
            blocks |= _READERS[found["table"]](file)
    return Measurements(
        hardware=card,
        model=request.model,
        tp=request.tp,
        source="LLMServingSim 5daddb2 (MIT, KAIST), kernels inside vLLM 0.19.0, bf16",
        kernels={"attention": "vLLM 0.19.0, eager", "layer": "vLLM 0.19.0, small kernels included"},
        notes=("embedding and final norm (about 5 us a step): not counted",),
        **blocks,
    )


def _dense(file: Path) -> dict[str, Points]:
    table = read_table(file, ("layer", "tokens", "time_us"), ("tokens", "time_us"))
    wide = table.pivot_table(index="tokens", columns="layer", values="time_us", aggfunc="median")
    parts = [name for name in _PER_LAYER if name in wide]
    if not {"qkv_proj", "o_proj"} <= set(parts):
        raise ValueError(f"{file}: no rows of the layers qkv_proj and o_proj")
    wide = wide[parts].dropna()
    summed = sum(wide[name] * _PER_LAYER[name] for name in parts)
    layer = wide.assign(time_us=summed).reset_index()
    return {"layer": points_of(layer, {"tokens": "tokens"}, "time_us", 1.0)}


def _attention(file: Path) -> dict[str, Points]:
    keys = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
    table = read_table(file, (*keys, "time_us"), (*keys, "time_us"))
    prefills, decodes = table["prefill_chunk"] > 0, table["n_decode"] > 0
    return {
        "decode_attention": points_of(
            table[decodes & ~prefills],
            {"batch": "n_decode", "context": "kv_decode"},
            "time_us",
            1.0,
        ),
        "prefill_attention": points_of(
            table[prefills & ~decodes].assign(requests=1),
            {"requests": "requests", "chunk": "prefill_chunk", "past": "kv_prefill"},
            "time_us",
            1.0,
        ),
        "mixed_attention": points_of(
            table[prefills & decodes],
            {
                "chunk": "prefill_chunk",
                "past": "kv_prefill",
                "num_decodes": "n_decode",
                "context": "kv_decode",
            },
            "time_us",
            1.0,
        ),
    }


def _per_sequence(file: Path) -> dict[str, Points]:
    table = read_table(file, ("layer", "sequences", "time_us"), ("sequences", "time_us"))
    wide = table.pivot_table(index="sequences", columns="layer", values="time_us", aggfunc="median")
    if not {"lm_head", "sampler"} <= set(wide):
        raise ValueError(f"{file}: no rows of the layers lm_head and sampler")
    head = wide.assign(time_us=wide["lm_head"] + wide["sampler"]).dropna().reset_index()
    return {"head": points_of(head, {"batch": "sequences"}, "time_us", 1.0)}


def _moe(file: Path) -> dict[str, Points]:
    keys = ("tokens", "activated_experts", "time_us")
    table = read_table(file, keys, keys)
    loads = {"tokens": "tokens", "activated": "activated_experts"}
    return {"experts": points_of(table, loads, "time_us", 1.0)}


_READERS: Final = {
    "dense": _dense,
    "attention": _attention,
    "per_sequence": _per_sequence,
    "moe": _moe,
}
