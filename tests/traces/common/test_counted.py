"""Counts with their nouns."""

from __future__ import annotations

import pytest

from kvsim.traces.common.text import counted


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 requests wait"), (1, "1 request waits"), (2000, "2,000 requests wait")],
)
def test_one_and_several(count: int, text: str) -> None:
    assert counted(count, "request waits", "requests wait") == text
    assert counted(count, "request") == text.rpartition(" ")[0]
