"""Splitwise's table of whole steps of llama2-70b (times in ms): prompt and token times by batch.

``perf_model.csv``: prompt_size, batch_size, prompt_time (whole batch), token_time (a decode step),
hardware and tensor_parallel; a cross, not a grid. A step is not taken apart here: it includes the
engine, whose overhead dominates it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pandas as pd

from kvsim.calibrate.sources.cards import CARDS, one_card
from kvsim.calibrate.sources.measurements import Measurements
from kvsim.calibrate.sources.request import plain_name
from kvsim.calibrate.sources.table import points_of, read_table

if TYPE_CHECKING:
    from kvsim.calibrate.sources.request import ReadRequest

_US_PER_MS: Final = 1000.0
_KEYS: Final = ("prompt_size", "batch_size", "token_size", "tensor_parallel")
_TIMES: Final = ("prompt_time", "token_time")


def read(request: ReadRequest) -> Measurements:
    """Whole steps of ``request.model`` on ``request.tp`` ranks. Raises ``ValueError``: none."""
    table = pd.concat(
        [
            read_table(file, ("model", "hardware", *_KEYS, *_TIMES), (*_KEYS, *_TIMES))
            for file in request.files()
        ]
    )
    card = one_card(set(table["hardware"].unique()), request.hardware, request.where)
    names = {str(name) for name in table["model"].unique()}
    rows = table[
        table["model"].map(plain_name).eq(plain_name(request.model.name))
        & table["hardware"].map(CARDS).eq(card)
    ]
    if rows.empty:
        raise ValueError(
            f"{request.where}: no rows of {request.model.name} on {card}; models:"
            f" {', '.join(sorted(names))}"
        )
    splits = sorted(int(n) for n in rows["tensor_parallel"].unique())
    if request.tp not in splits:
        raise ValueError(
            f"{request.where}: no rows for tp={request.tp}; there are those of tp"
            f" {', '.join(map(str, splits))}"
        )
    rows = rows[rows["tensor_parallel"] == request.tp]
    rows = rows.assign(context=rows["prompt_size"] + rows["token_size"] / 2)
    return Measurements(
        hardware=card,
        model=request.model,
        tp=request.tp,
        source="Splitwise 8f99e7d (MIT, Patel), whole steps of an inference server of 2023",
        kernels={},
        step=points_of(
            rows, {"batch": "batch_size", "context": "context"}, "token_time", _US_PER_MS
        ),
        prompt=points_of(
            rows, {"requests": "batch_size", "chunk": "prompt_size"}, "prompt_time", _US_PER_MS
        ),
        notes=("whole steps were measured: what is not weights or KV is in the host term",),
    )
