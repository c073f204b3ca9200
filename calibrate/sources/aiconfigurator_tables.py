"""Which tables of aiconfigurator are read: one of each kind, of one card, in bfloat16.

``<card>/<family>/<framework>-<version>-<table>.csv.gz``; a table is recognised by its columns.
Where the paths hold several frameworks, vLLM's newest tables are taken.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kvsim.calibrate.sources.cards import CARDS, one_card
from kvsim.calibrate.sources.table import first_row, read_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pandas as pd

    from kvsim.calibrate.sources.request import ReadRequest

_HEADS: Final = ("num_heads", "num_key_value_heads", "head_dim", "attn_dtype", "kv_cache_dtype")
_COMMON: Final = ("framework", "version", "device", "kernel_source", "latency")
_COLUMNS: Final = {
    "decode": ("batch_size", "step", *_HEADS),
    "prefill": ("batch_size", "isl", "step", *_HEADS),
    "gemm": ("gemm_dtype", "m", "n", "k"),
    "all_reduce": ("allreduce_dtype", "num_gpus", "message_size", "backend"),
}


def card_tables(request: ReadRequest) -> tuple[str, dict[str, pd.DataFrame]]:
    """Card by our name, and the newest table of each kind (decode, prefill, gemm, all_reduce).

    Raises ``ValueError`` where there is no table, or where they are of several cards.
    """
    files = request.files()
    preferred = [file for file in files if file.name.startswith("vllm-")] or files
    found = []
    for file in sorted(preferred, key=_version):
        row = first_row(file)
        kind = _kind(row)
        if kind is not None:
            found.append((file, kind, row.get("device", "")))
    if not found:
        wanted = "; ".join(f"{kind}: {', '.join(c)}" for kind, c in _COLUMNS.items())
        raise ValueError(f"{request.where}: no aiconfigurator table; its columns are {wanted}")
    card = one_card({device for _, _, device in found}, request.hardware, request.where)
    newest = {kind: file for file, kind, device in found if CARDS.get(device) == card}
    return card, {kind: _table(file, kind, card, request) for kind, file in newest.items()}


def _kind(row: Mapping[str, str]) -> str | None:
    for kind, columns in _COLUMNS.items():
        if row.keys() >= set(columns):
            if kind == "decode" and row.get("op_name") == "context_attention":
                return "prefill"  # has the columns of both
            return kind
    return None


def _version(file: Path) -> tuple[int, ...]:
    found = re.search(r"-(\d+(?:\.\d+)*)", file.name)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def _table(file: Path, kind: str, card: str, request: ReadRequest) -> pd.DataFrame:
    """Rows of one file in bfloat16 on the card."""
    columns = _COLUMNS[kind]
    dtypes = [column for column in columns if column.endswith("dtype")]
    numbers = [c for c in columns if c not in (*dtypes, "backend")]
    table = read_table(file, (*columns, *_COMMON), (*numbers, "latency"))
    one_card({str(device) for device in table["device"].unique()}, request.hardware, str(file))
    table = table[table["device"].map(CARDS) == card]
    for column in dtypes:
        table = table[table[column] == "bfloat16"]
    if table.empty:
        raise ValueError(f"{file}: no row in bfloat16")
    return table
