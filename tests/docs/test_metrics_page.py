"""The page on metrics names the keys of the summary, and the columns of the tables, as they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.sim.documents.json_schema import json_schema
from kvsim.sim.documents.kv_memory import Primitives
from kvsim.sim.documents.summary import Latency, Summary
from kvsim.sim.metrics.shares import STATES
from kvsim.sim.run.run import simulate
from kvsim.traces.common.part import keys_of, name_of
from kvsim.traces.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.traces.common.part import Part

PAGE = (Path(__file__).parents[2] / "docs/metrics.md").read_text("utf-8")
ELSEWHERE = {"max_model_len", "max_tokens", "timeout_ns"}
"""Keys of scenarios and traces that the page names."""
ONE = Trace("one", np.zeros(1, np.int64), np.ones(1, np.int64), np.ones(1, np.int64))


def rows_below(head: str) -> list[list[str]]:
    """Cells of the table that begins with this line."""
    lines = PAGE.split(f"{head}\n", 1)[1].splitlines()[1:]
    end = next(place for place, line in enumerate(lines) if not line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[:end]]


def named(cell: str) -> list[str]:
    return re.findall(r"`([a-z0-9_]+)`", cell)


def keys(part: type[Part]) -> set[str]:
    return {name_of(item) for item in keys_of(part)}


def paths() -> Iterator[list[str]]:
    """Keys below others that the page names, such as ``queue.longest_wait_s``."""
    for path in re.findall(r"`([a-z0-9_]+(?:\.[a-z0-9_]+)+)`", PAGE):
        if path.partition(".")[0] in keys(Summary) and not path.endswith((".json", ".parquet")):
            yield path.split(".")


def test_latencies_and_primitives_are_all_defined() -> None:
    latencies = rows_below("| name | definition | over |")
    assert {name for row in latencies for name in named(row[0])} == keys(Latency)
    primitives = rows_below("| primitive | slots that hold | state |")
    states = {name: state for cell, _, state in primitives for name in named(cell)}
    assert states.keys() == keys(Primitives)
    assert states == {part: state for state, parts in STATES.items() for part in parts}


@pytest.mark.parametrize("path", [*paths()], ids=".".join)
def test_keys_below_others_are_in_the_summary(path: list[str]) -> None:
    place: Any = json_schema(Summary)
    for name in path:
        assert name in place.get("properties", {}), f"{'.'.join(path)} is no key of the summary"
        place = place["properties"][name]


def test_names_are_keys_of_the_summary() -> None:
    """All that look like one, above the tables of a run folder."""

    def known(schema: Any) -> set[str]:
        below = schema.get("properties", {})
        return {*below}.union(*map(known, below.values()))

    above = PAGE.split("## Tables of a run folder")[0]
    found = set(re.findall(r"`([a-z0-9]+(?:_[a-z0-9]+)+)`", above))
    assert found - known(json_schema(Summary)) == ELSEWHERE


def test_columns_of_the_tables_are_those_of_the_frames() -> None:
    run = simulate(ONE)
    requests, series = PAGE.split("`series.parquet` has one row")
    assert columns(requests) == {*run.requests.columns}
    assert "waiting_blocks" in columns(series) <= {*run.series.columns}, "some are told by one"


def columns(text: str) -> set[str]:
    """Names in the first cells of a table of columns."""
    rows = text.split("| column | meaning |\n")[1].split("\n\n", maxsplit=1)[0].splitlines()
    return {name for row in rows for name in named(row.split("|")[1])}
