"""The page on JSON documents is today's, and links what it names."""

from __future__ import annotations

import runpy
from pathlib import Path

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "docs/make_json.py"))
PAGE: Path = SCRIPT["PAGE"]


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == SCRIPT["page"](), "run: python -m docs.make_json"
    assert "(docs/" not in PAGE.read_text("utf-8")
