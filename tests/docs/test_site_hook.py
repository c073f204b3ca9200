"""The site: every page has its place, links lead on, and scripts in cells are pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.site_hook import (
    PAGES,
    cells_as_markdown,
    example_pages,
    figure,
    page_of,
    policy_examples,
    turn_links,
)

ROOT = Path(__file__).resolve().parents[2]
NAV = (ROOT / "mkdocs.yml").read_text("utf-8").split("\nnav:\n")[1]
IN_NAV = re.findall(r"\S+\.md$", NAV, re.MULTILINE)


def test_every_page_has_one_place_in_the_nav() -> None:
    written = [path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")]
    assert sorted(IN_NAV) == sorted([*written, *PAGES.values(), *example_pages().values()])


@pytest.mark.parametrize(
    ("markdown", "uri", "turned"),
    [
        ("[m](docs/metrics.md#latency)", "index.md", "[m](metrics.md#latency)"),
        ("![p](docs/figures/a.svg)", "index.md", "![p](figures/a.svg)"),
        ("[sim/engine/driver.py](sim/engine/driver.py)", "index.md", "`sim/engine/driver.py`"),
        ("[`LICENSE`](LICENSE)", "index.md", "`LICENSE`"),
        ("[e](../examples)", "policies.md", "[e](examples/policies.md)"),
        ("[c](../CONTRIBUTING.md#traps)", "design.md", "[c](contributing.md#traps)"),
        ("[q](queue.md)", "policies.md", "[q](queue.md)"),
        ("[r](../run.md)", "api/sim.md", "[r](../run.md)"),
        ("[p](docs/policies.md)", "examples/policies.md", "[p](../policies.md)"),
        ("[x](https://example.org/a.md) [y](#z)", "index.md", None),
    ],
)
def test_links_of_the_repository_lead_on_the_site(
    markdown: str, uri: str, turned: str | None
) -> None:
    assert turn_links(markdown, uri) == (turned or markdown)


def test_cells_become_words_and_code() -> None:
    script = "# %% [markdown]\n# # Title\n#\n# Words.\n\n# %%\nx = 1\n\n# %%\ny = 2\n"
    assert cells_as_markdown(script, "examples/s.py") == (
        "# Title\n\nWords.\n\n```py\nx = 1\n```\n\n```py\ny = 2\n```\n\n"
        "*This page is `examples/s.py`; the tests run it.*\n"
    )


def test_all_examples_are_on_the_site() -> None:
    pages = "".join(page_of(source) for source in example_pages()) + policy_examples()
    for path in (ROOT / "examples").glob("*.py"):
        assert f"examples/{path.name}" in pages


def test_a_figure_stands_in_the_page_with_its_words() -> None:
    html = figure("what it shows", "waste.svg")
    assert html.startswith('<figure class="kvsim"><svg aria-label="what it shows" ')


def test_the_site_asks_no_other_machine_for_anything() -> None:
    settings = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert "font: false" in settings
    assert "- offline" in settings
    assert "://" not in settings
