"""Tables of NVIDIA's aiconfigurator (times in ms): attention, products by shape, all-reduce.

Products are summed over
the shapes of the model's layer; the head is the largest product, scaled (no sampler). Past is
always 0 in the prefill table, and no mixed batch was measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.calibrate.sources.aiconfigurator_tables import card_tables
from kvsim.calibrate.sources.layer_shapes import Shape, ShapeTable, layer_shapes
from kvsim.calibrate.sources.measurements import Measurements
from kvsim.calibrate.sources.points import Points, no_points
from kvsim.calibrate.sources.table import points_of

if TYPE_CHECKING:
    import pandas as pd

    from kvsim.calibrate.sources.request import ReadRequest

_US_PER_MS: Final = 1000.0
_ENGINES: Final = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}
_VALUE_BYTES: Final = 2
_RANKS: Final = (1, 2, 4, 8)
_SMALLEST_SHAPE: Final = 2048
"""Shapes below it in n or k are no layer of the models people serve."""


def read(request: ReadRequest) -> Measurements:
    """Points of ``request.model``; attention must be of its head layout on one rank.

    Raises ``ValueError`` where no table fits.
    """
    card, tables = card_tables(request)
    for kind in ("decode", "prefill"):
        if kind in tables:
            tables[kind] = _of_model(tables[kind], kind, request)
    if "all_reduce" in tables:
        tables["all_reduce"] = _in_graphs(tables["all_reduce"])
    decode = _attention(tables, "decode", {"batch": "batch_size", "context": "context"})
    prefill = _attention(
        tables, "prefill", {"requests": "batch_size", "chunk": "isl", "past": "step"}
    )
    shapes = _shape_table(tables)
    layer, left_out, head = _products(shapes, request)
    engines = {
        f"{_ENGINES.get(str(name).lower(), name)} {version}"
        for table in tables.values()
        for name, version in table[["framework", "version"]].drop_duplicates().to_numpy()
    }
    return Measurements(
        hardware=card,
        model=request.model,
        tp=request.tp,
        source=(
            "aiconfigurator-core 0.12.0 (Apache-2.0, NVIDIA), tables "
            + ", ".join(sorted(tables))
            + f" of {', '.join(sorted(engines))}, bf16"
        ),
        kernels={
            name: ", ".join(sorted({str(k) for k in table["kernel_source"].unique()}))
            for name, table in sorted(tables.items())
        },
        layer=layer,
        splits=_splits(shapes, request),
        shapes=left_out,
        decode_attention=decode,
        prefill_attention=prefill,
        head=head,
        all_reduce=_all_reduce(tables),
        notes=(
            "small kernels of a layer (norms, rotary, activation): not counted",
            "head: the largest product of the table, scaled to the vocabulary; no sampler",
        ),
    )


def _of_model(table: pd.DataFrame, kind: str, request: ReadRequest) -> pd.DataFrame:
    """Full-attention rows of the head layout that one rank has."""
    model, tp = request.model, request.tp
    heads, kv_heads = model.num_heads // tp, model.groups[0].kv_heads_per_rank(tp)
    rows = table[
        (table["num_heads"] == heads)
        & (table["num_key_value_heads"] == kv_heads)
        & (table["head_dim"] == model.head_dim)
    ]
    if "window_size" in rows:
        rows = rows[rows["window_size"] == 0]
    if rows.empty:
        raise ValueError(
            f"{request.where}: the {kind} attention table has no rows of {heads} query and"
            f" {kv_heads} KV heads of {model.head_dim} values, which is {model.name} on one of"
            f" {tp} ranks"
        )
    return rows.assign(context=rows["step"] + 1)


def _in_graphs(table: pd.DataFrame) -> pd.DataFrame:
    """CUDA graphs where both were measured: decode steps run in them."""
    graphs = table[table["backend"].str.contains("graph")]
    return table if graphs.empty else graphs


def _attention(tables: dict[str, pd.DataFrame], kind: str, loads: dict[str, str]) -> Points:
    if kind not in tables:
        return no_points(*loads)
    return points_of(tables[kind], loads, "latency", _US_PER_MS)


def _shape_table(tables: dict[str, pd.DataFrame]) -> ShapeTable | None:
    """Shapes that were measured at every token count of the table's most common set."""
    if "gemm" not in tables:
        return None
    wide = tables["gemm"].pivot_table(
        index="m", columns=["n", "k"], values="latency", aggfunc="median"
    )
    wide = wide.loc[wide.notna().sum(axis=1) >= 0.9 * wide.shape[1]].dropna(axis=1)
    sizes = (wide.columns.get_level_values(key).tolist() for key in ("n", "k"))
    shapes = [Shape(int(n), int(k)) for n, k in zip(*sizes, strict=True)]
    us = dict(zip(shapes, wide.to_numpy(dtype=np.float64).T * _US_PER_MS, strict=True))
    return ShapeTable(wide.index.to_numpy(dtype=np.float64), us)


def _products(table: ShapeTable | None, request: ReadRequest) -> tuple[Points, Points, Points]:
    """Sum over a layer, shapes left out one by one, and the head."""
    empty = np.empty(0)
    if table is None:
        return no_points("tokens"), no_points("shape", "tokens", "estimate"), no_points("batch")
    model, tp = request.model, request.tp
    layer = np.sum([table.at(shape) for shape in layer_shapes(model, tp)], axis=0)
    head = table.at(Shape(model.vocab_size // tp, model.hidden_size))
    sizes_n, sizes_k = {shape.n for shape in table.us}, {shape.k for shape in table.us}
    inner = [
        shape
        for shape in sorted(table.us)
        if max(min(sizes_n), _SMALLEST_SHAPE - 1) < shape.n < max(sizes_n)
        and max(min(sizes_k), _SMALLEST_SHAPE - 1) < shape.k < max(sizes_k)
    ]
    count = len(table.tokens)
    estimates = [table.left_out(shape) for shape in inner]
    return (
        Points({"tokens": table.tokens}, layer),
        Points(
            {
                "shape": np.repeat(np.arange(len(inner), dtype=np.float64), count),
                "tokens": np.tile(table.tokens, len(inner)),
                "estimate": np.concatenate([*estimates, empty]),
            },
            np.concatenate([*(table.us[shape] for shape in inner), empty]),
        ),
        Points({"batch": table.tokens}, head),
    )


def _splits(table: ShapeTable | None, request: ReadRequest) -> Points:
    """Layer at the fewest tokens on as many ranks as divide its heads."""
    if table is None:
        return no_points("weight_bytes")
    model = request.model
    ranks = [n for n in _RANKS if model.num_heads % n == 0 and model.num_kv_heads % n == 0]
    split = [layer_shapes(model, n) for n in ranks]
    return Points(
        {
            "weight_bytes": np.array(
                [_VALUE_BYTES * sum(shape.n * shape.k for shape in shapes) for shapes in split],
                dtype=np.float64,
            )
        },
        np.array([sum(table.at(shape)[0] for shape in shapes) for shapes in split]),
    )


def _all_reduce(tables: dict[str, pd.DataFrame]) -> dict[int, Points]:
    """By number of cards."""
    if "all_reduce" not in tables:
        return {}
    table = tables["all_reduce"]
    return {
        int(cards): points_of(
            table[table["num_gpus"] == cards],
            {"message_bytes": "message_size"},
            "latency",
            _US_PER_MS,
        )
        for cards in sorted(table["num_gpus"].unique())
    }
