"""Rows of the tables of checks: each says which tables of a scenario it is about, and no others."""

from __future__ import annotations

import re
from dataclasses import fields
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import pytest

from kvsim.sim.scenario.checks.check import Check, refuse, sentences
from kvsim.sim.scenario.checks.samples import TRACE
from kvsim.sim.scenario.checks.scenario import COST, SCENARIO, UNUSED
from kvsim.sim.scenario.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = {item.name for item in fields(Scenario)} - {"preset"}
ROWS: list[Check[Any, Any]] = [*SCENARIO, *COST, *UNUSED, *TRACE]


def words(function: FunctionType) -> Iterator[str]:
    """Attributes that a function reads, dotted, and its text; those of its helpers included."""
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        yield from (f"{name}." for name in code.co_names)
        yield from (text for text in code.co_consts if isinstance(text, str))
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
        for name in code.co_names:
            value = function.__globals__.get(name)
            if isinstance(value, str):
                yield value
            elif isinstance(value, FunctionType) and value is not function:
                yield from words(value)


def tables_of(check: Check[Any, Any]) -> set[str]:
    found = set()
    for function in (check.applies, check.sentence):
        assert isinstance(function, FunctionType)
        for word in words(function):
            found |= {table for table in TABLES if re.search(rf"\b{table}\.", word)}
    return found


@pytest.mark.parametrize("check", ROWS, ids=range(len(ROWS)))
def test_a_row_names_the_tables_it_is_about(check: Check[Any, Any]) -> None:
    assert set(check.tables.split()) == tables_of(check)


def test_a_row_of_wrong_tables_is_seen() -> None:
    row: Check[Scenario, None] = Check(
        "engine", lambda s, _: s.engine.block_size == 1, lambda _s, _: "not with queue.policy"
    )
    assert tables_of(row) == {"engine", "queue"}


def test_the_first_row_that_applies_is_told_and_notes_are_all() -> None:
    rows: list[Check[int, int]] = [
        Check("", lambda n, least: n > least, lambda n, _: f"a: {n}"),
        Check("", lambda n, least: n > least, lambda n, _: f"b: {n}"),
    ]
    with pytest.raises(ValueError, match=r"^a: 3$"):
        refuse(rows, 3, 2)
    refuse(rows, 2, 2)
    assert sentences(rows, 3, 2) == ["a: 3", "b: 3"]
