"""Tables of Microsoft's Vidur (times in ms, median of repeats): layers, attention, all-reduce.

``compute__<card>__<owner>__<model>__mlp`` has the operators of a layer by tokens and ranks,
``legacy_<card>_attention`` attention with past (rounded to 1 us), ``network__<card>_*__all_reduce``
all-reduces by bytes.
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

    import pandas as pd

    from kvsim.calibrate.sources.points import Points
    from kvsim.calibrate.sources.request import ReadRequest

_US_PER_MS: Final = 1000.0
_VALUE_BYTES: Final = 2
_LAYER: Final = (
    "input_layernorm", "attn_pre_proj", "attn_rope", "attn_post_proj", "post_attention_layernorm",
    "mlp_up_proj", "mlp_act", "mlp_down_proj", "add",
)  # fmt: skip
_COMPUTE: Final = re.compile(r"compute__(?P<card>\w+?)__(?P<model>.+)__mlp\.csv(\.gz)?$")
_ATTENTION: Final = re.compile(r"legacy_(?P<card>\w+?)_attention\.csv(\.gz)?$")
_NETWORK: Final = re.compile(r"network__(?P<card>[a-z0-9]+)_(?P<link>\w+)__all_reduce\.csv(\.gz)?$")


def read(request: ReadRequest) -> Measurements:
    """Points of ``request.model`` on ``request.tp`` ranks. Raises ``ValueError``: none fit."""
    named = [(file, found) for file in request.files() if (found := _match(file)) is not None]
    if not named:
        raise ValueError(
            f"{request.where}: no Vidur table by its file name; names are"
            " compute__CARD__OWNER__MODEL__mlp.csv.gz, legacy_CARD_attention.csv.gz and"
            " network__CARD_LINK__all_reduce.csv.gz"
        )
    card = one_card({found["card"] for _, found in named}, request.hardware, request.where)
    mine = [(file, found) for file, found in named if CARDS.get(found["card"]) == card]
    blocks: dict[str, Any] = {}
    models = {}
    for file, found in mine:
        if "model" in found.groupdict():
            models[plain_name(found["model"])] = file
    wanted = plain_name(request.model.name)
    if wanted in models:
        blocks["layer"], blocks["splits"] = _layer(models[wanted], request)
    elif models:
        raise ValueError(
            f"{request.where}: no layers of {request.model.name}; there are those of"
            f" {', '.join(sorted(models))}"
        )
    for file, _ in mine:
        if _ATTENTION.search(file.name):
            blocks |= _attention(file, request)
    blocks["all_reduce"] = _all_reduce([file for file, _ in mine if _NETWORK.search(file.name)])
    if "layer" not in blocks and "decode_attention" not in blocks and not blocks["all_reduce"]:
        raise ValueError(f"{request.where}: nothing here is of {request.model.name}")
    return Measurements(
        hardware=card,
        model=request.model,
        tp=request.tp,
        source="Vidur 7d47513 (MIT, Microsoft), layers of vLLM and NCCL of 2024, 16 bits",
        kernels={"layer": "torch products and vLLM kernels, norms, rotary, activation included"},
        **blocks,
    )


def _match(file: Path) -> re.Match[str] | None:
    for pattern in (_COMPUTE, _ATTENTION, _NETWORK):
        found = pattern.search(file.name)
        if found is not None:
            return found
    return None


def _layer(file: Path, request: ReadRequest) -> tuple[Points, Points]:
    """Layer by tokens on the ranks asked for, and at the fewest tokens by bytes of a rank."""
    medians = [f"time_stats.{name}.median" for name in _LAYER]
    keys = ("num_tokens", "num_tensor_parallel_workers", "n_head", "n_kv_head", "n_embd",
            "n_expanded_embd")  # fmt: skip
    table = read_table(file, (*keys, *medians), keys)
    _check_shape(table, file, request)
    medians_ms = table.groupby(["num_tensor_parallel_workers", "num_tokens"])[medians].median()
    summed_ms = medians_ms.sum(axis=1, skipna=False).rename("layer").reset_index()
    if summed_ms["layer"].isna().any():
        raise ValueError(f"{file}: times of some operators are missing")
    mine = summed_ms[summed_ms["num_tensor_parallel_workers"] == request.tp]
    if mine.empty:
        raise ValueError(f"{file}: no rows for tp={request.tp}")
    few = summed_ms[summed_ms["num_tokens"] == summed_ms["num_tokens"].min()]
    model = request.model
    layer_bytes = _VALUE_BYTES * model.params.layer_linear / model.num_layers
    few = few.assign(weight_bytes=layer_bytes / few["num_tensor_parallel_workers"])
    return (
        points_of(mine, {"tokens": "num_tokens"}, "layer", _US_PER_MS),
        points_of(few, {"weight_bytes": "weight_bytes"}, "layer", _US_PER_MS),
    )


def _check_shape(table: pd.DataFrame, file: Path, request: ReadRequest) -> None:
    model = request.model
    for column, ours in (
        ("n_head", model.num_heads),
        ("n_kv_head", model.num_kv_heads),
        ("n_embd", model.hidden_size),
        ("n_expanded_embd", model.intermediate_size),
    ):
        theirs = int(table[column].iloc[0])
        if theirs != ours:
            raise ValueError(f"{file}: {column}={theirs}, but {model.name} has {ours}")


def _attention(file: Path, request: ReadRequest) -> dict[str, Any]:
    keys = ("batch_size", "prefill_chunk_size", "kv_cache_size", "n_q_head", "n_kv_head",
            "n_embd", "num_tensor_parallel_workers")  # fmt: skip
    times = ("time_stats.attn_decode.median", "time_stats.attn_prefill.median")
    table = read_table(file, (*keys, *times, "is_prefill"), keys)
    model = request.model
    rows = table[
        (table["n_q_head"] == model.num_heads)
        & (table["n_kv_head"] == model.num_kv_heads)
        & (table["num_tensor_parallel_workers"] == request.tp)
    ]
    if rows.empty:
        tp = sorted(int(n) for n in table["num_tensor_parallel_workers"].unique())
        raise ValueError(
            f"{file}: no rows of {model.num_heads} query and {model.num_kv_heads} KV heads at"
            f" tp={request.tp}; there are {int(table['n_q_head'].iloc[0])} and"
            f" {int(table['n_kv_head'].iloc[0])} at tp={', '.join(map(str, tp))}"
        )
    prefill = rows["is_prefill"].astype(str).str.lower() == "true"
    return {
        "decode_attention": points_of(
            rows[~prefill].assign(context=rows["kv_cache_size"] + 1),
            {"batch": "batch_size", "context": "context"},
            times[0],
            _US_PER_MS,
        ),
        "prefill_attention": points_of(
            rows[prefill],
            {"requests": "batch_size", "chunk": "prefill_chunk_size", "past": "kv_cache_size"},
            times[1],
            _US_PER_MS,
        ),
    }


def _all_reduce(files: list[Path]) -> dict[int, Any]:
    """By number of cards; the file with most cards wins where several measured the same."""
    value = "time_stats.all_reduce.median"
    found: dict[int, Any] = {}
    for file in files:
        table = read_table(file, ("size", "num_workers", value), ("size", "num_workers", value))
        for cards, rows in table.groupby("num_workers"):
            found[int(str(cards))] = points_of(rows, {"message_bytes": "size"}, value, _US_PER_MS)
    return dict(sorted(found.items()))
