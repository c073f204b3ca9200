"""The site as it is built and opened from disk: no warning, no network, all pages fit a phone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.browser import Browser

ROOT = Path(__file__).resolve().parents[2]
PHONE, DESK = 390, 1400
pytestmark = pytest.mark.slow
WIDE = "return document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the site, built from a copy of what it needs; warnings are errors.

    The build writes beside the sources, and each worker of the tests has a site of its own.
    """
    for extra in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(extra, reason="pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    folders = {path.split("/")[0] for path in tables["package-dir"].values()}
    for name in ("docs", "examples", *folders):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "build" / "site"


def test_no_page_has_what_another_machine_must_send(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        for loaded in ('src="http', 'rel="stylesheet" href="http', "@import"):
            assert loaded not in text, page.name


def test_pages_open_from_disk_and_fit_desk_and_phone(site: Path, browser: Browser) -> None:
    browser.driver.get("about:blank")
    browser.errors()
    browser.requests()  # what the browser's own first page asked for
    pages = [page for page in sorted(site.rglob("*.html")) if page.name != "404.html"]
    for page in pages:
        browser.resize(DESK, 900)
        browser.driver.get(page.as_uri())
        assert browser.ask(WIDE) <= DESK, page.name
        browser.resize(PHONE, 900)
        assert browser.ask(WIDE) <= PHONE, page.name
    assert (browser.errors(), browser.requests()) == ([], [])


def test_figures_take_the_colour_of_the_scheme(site: Path, browser: Browser) -> None:
    colour = "return getComputedStyle(document.querySelector('svg.kvsim-figure text')).fill"
    seen = set()
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.driver.get((site / "paging.html").as_uri())
        seen.add(browser.ask(colour))
        assert browser.ask("return document.querySelectorAll('svg.kvsim-figure').length") == 5
    assert len(seen) == 2


def test_the_search_finds_a_key_without_a_server(site: Path, browser: Browser) -> None:
    browser.resize(DESK, 900)
    browser.driver.get((site / "index.html").as_uri())
    box = browser.driver.find_element("css selector", ".md-search__input")
    box.click()
    box.send_keys("new_token_ratio")
    browser.wait("document.querySelector('.md-search-result__item a')")
    found = browser.driver.find_elements("css selector", ".md-search-result__item a")
    assert any("scenario-keys.html" in (link.get_attribute("href") or "") for link in found)
