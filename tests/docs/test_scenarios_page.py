"""The pages on scenarios are up to date, and list every key."""

from __future__ import annotations

import re
import runpy
from dataclasses import fields
from pathlib import Path

import pytest

from kvsim.policies.option_keys import key, key_of, name_of, whole
from kvsim.sim.scenario.scenario import Scenario

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "docs/make_scenarios.py"))
TEXT: str = SCRIPT["keys_page"]()


@pytest.mark.parametrize(("file", "text"), [("PAGE", "page"), ("KEYS_PAGE", "keys_page")])
def test_the_page_is_up_to_date(file: str, text: str) -> None:
    assert SCRIPT[file].read_text("utf-8") == SCRIPT[text](), "run: python -m docs.make_scenarios"


@pytest.mark.parametrize("table", [item.name for item in fields(Scenario) if item.name != "preset"])
def test_every_key_of_a_table_has_a_row_with_type_default_allowed_values_and_meaning(
    table: str,
) -> None:
    section = TEXT.split(f"## `[{table}]`")[1].split("## ", maxsplit=1)[0]
    rows = {}
    for line in section.splitlines():
        if found := re.match(
            r"\| `(\w+)` \| (\w+) \| [^|]* \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", line
        ):
            rows[found[1]] = found.groups()[1:]
    assert list(rows) == [name_of(item) for item in fields(getattr(Scenario(), table))]
    assert all(cell.strip() for cells in rows.values() for cell in cells)


def test_a_key_keeps_what_it_is_told() -> None:
    told = key_of(key(1, whole(1), "How many", unit="tokens", engine="vLLM n"))  # type: ignore[arg-type]
    assert (told.meaning, told.unit, told.engine) == ("How many", "tokens", "vLLM n")
