"""Pages that list policies or formats list all of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kvsim.policies.batching import BATCHING
from kvsim.policies.eviction import EVICTION
from kvsim.policies.predictor import PREDICTORS
from kvsim.policies.queue_order import QUEUE_ORDERS
from kvsim.traces.formats import format_names

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).resolve().parents[2]


def listed(page: str, head: str) -> set[str]:
    """Names in the first column of the table that begins with ``head``, without plug-ins."""
    table = (ROOT / page).read_text("utf-8").split(f"\n| {head} |", 1)[1].split("\n\n", 1)[0]
    cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    return {name for cell in cells for name in re.findall("`([^` :=]+)`", cell)}


@pytest.mark.parametrize(
    ("page", "head", "names"),
    [
        ("docs/traces.md", "`--format`", format_names()),
        ("docs/eviction.md", "`eviction.policy`", EVICTION.builtins),
        ("docs/queue.md", "`queue.policy`", QUEUE_ORDERS.builtins),
        ("docs/queue.md", "`predictor.kind`", PREDICTORS.builtins),
        ("docs/batching.md", "`batching.policy`", BATCHING.builtins),
    ],
)
def test_a_page_lists_all_names(page: str, head: str, names: Iterable[str]) -> None:
    assert listed(page, head) == set(names)


def test_the_readme_counts_formats_and_eviction_orders() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert f"[{len(format_names())} trace formats]" in text
    assert f"| eviction orders | [{len(EVICTION.builtins)}]" in text
