"""The pages on JSON documents are up to date and link to other pages."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "docs/make_json.py"))


@pytest.mark.parametrize(("file", "text"), [("PAGE", "page"), ("KEYS_PAGE", "keys_page")])
def test_the_page_is_up_to_date(file: str, text: str) -> None:
    written = SCRIPT[file].read_text("utf-8")
    assert written == SCRIPT[text](), "run: python -m docs.make_json"
    assert "(docs/" not in written
