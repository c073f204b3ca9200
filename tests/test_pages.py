"""Every kind of page: nothing unescaped, and in a real browser, on a screen, a phone and paper."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from kvsim.sim.comparison.pages.page import comparison_page
from tests.page_kinds import PAGES, small_comparison

if TYPE_CHECKING:
    from pathlib import Path

    from tests.browser import Browser

EVIL = "\"'><script>window.hacked=1</script><img src=x onerror=window.hacked=1>&amp;</title>"
WORD = "a plain name"
BIGGEST = 8_000_000


def text_of(kind: str, word: str) -> str:
    return "".join(PAGES[kind](word))


class Tags(HTMLParser):
    """Start tags of a page, by name; raw text of scripts is no tag."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, int] = {}
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found[tag] = self.found.get(tag, 0) + 1
        self.attributes |= {name for name, _ in attrs}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Path]:
    """Files of all pages: of plain names, and of evil ones."""
    folder = tmp_path_factory.mktemp("pages")
    files = {}
    for kind in PAGES:
        for evil in (False, True):
            files[kind, evil] = folder / f"{kind}{'-evil' * evil}.html"
            files[kind, evil].write_text(text_of(kind, EVIL if evil else WORD), "utf-8")
    return files


@pytest.mark.parametrize("kind", PAGES)
def test_nothing_from_outside_is_markup(kind: str) -> None:
    plain, evil = Tags(), Tags()
    page = text_of(kind, EVIL)
    plain.feed(text_of(kind, WORD))
    evil.feed(page)
    assert evil.found == plain.found
    assert evil.attributes == plain.attributes
    assert "<script>window" not in page
    assert page.count("</script>") == plain.found["script"]
    assert "&lt;script&gt;window" in page
    for data in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page):
        assert not set("<>&") & set(data)
        assert "\\u003cscript" not in data, "plotly reads some HTML: names in figures are escaped"


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_is_one_file(kind: str) -> None:
    page = text_of(kind, WORD)
    assert len(page) < BIGGEST
    assert page == text_of(kind, WORD)
    assert not re.search(r"<(link|iframe|object|embed)\b|<script[^>]*\ssrc=", page)
    assert "Content-Security-Policy" in page


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAGES)
def test_evil_names_do_nothing_in_a_browser(
    kind: str, browser: Browser, written: dict[tuple[str, bool], Path]
) -> None:
    browser.open(written[kind, True])
    assert browser.errors() == []
    assert browser.requests() == []
    assert browser.ask("return window.hacked") is None
    assert browser.ask("return document.querySelectorAll('img, a:not(.skip)').length") == 0
    names = browser.ask(
        "return [...document.querySelectorAll('[data-chart]')].map(b => b.dataset.file)"
    )
    num_charts = browser.ask("return document.querySelectorAll('.plot').length")
    assert len(set(names)) == len(names) == num_charts >= 2
    for place, name in enumerate(names):
        points = browser.ask(
            "const b = document.querySelectorAll('[data-chart]')[arguments[0]]; b.click();"
            "return document.getElementById(b.dataset.chart).data.map(t => t.x.length)",
            place,
        )
        assert min(points) > 0
        head, *rows = csv.reader(io.StringIO(browser.downloaded(name)))
        assert head[:2] == ["panel", "series"]
        assert len(rows) == sum(points)
        assert {len(row) for row in rows} == {5}
        assert not any("&lt;" in cell for row in rows for cell in row), "names as they are"
    assert browser.errors() == browser.requests() == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAGES)
def test_a_phone_shows_all(
    kind: str, browser: Browser, written: dict[tuple[str, bool], Path]
) -> None:
    browser.open(written[kind, False], width=390, height=800)
    assert browser.ask("return document.documentElement.scrollWidth") <= 390
    assert beyond_the_edge(browser) == []
    assert covered_titles(browser) == []
    if kind == "comparison":
        assert titles_of_panels(browser, "kv-memory-over-time.csv") == {"% of the pool", "time (s)"}


def titles_of_panels(browser: Browser, file: str) -> set[str]:
    """Titles of axes in a chart, each of which all of its panels have."""
    found: list[str] = browser.ask(
        "const button = document.querySelector(`[data-file='${arguments[0]}']`);"
        "const plot = document.getElementById(button.dataset.chart);"
        "return [...plot.querySelectorAll('.xtitle, .ytitle, [class^=x][class$=title],"
        " [class^=y][class$=title]')].map(t => t.textContent)",
        file,
    )
    panels = browser.ask(
        "const button = document.querySelector(`[data-file='${arguments[0]}']`);"
        "return document.getElementById(button.dataset.chart).layout.annotations.length",
        file,
    )
    return {title for title in found if found.count(title) == panels}


@pytest.mark.slow
@pytest.mark.parametrize("kind", PAGES)
def test_a_screen_shows_all_at_once(
    kind: str, browser: Browser, written: dict[tuple[str, bool], Path]
) -> None:
    browser.prefer("light")
    browser.open(written[kind, False])
    assert beyond_the_edge(browser) == []
    assert covered_titles(browser) == []
    cut = "e => e.scrollWidth > e.clientWidth + 1"
    assert browser.ask(f"return [...document.querySelectorAll('.wide')].filter({cut}).length") == 0
    walk_by_keyboard(browser)
    change_colours(browser)
    print_out(browser)
    assert browser.errors() == browser.requests() == []


def beyond_the_edge(browser: Browser) -> list[str]:
    """Tags of what is cut off on the right, but for what scrolls in a box of its own."""
    found: list[str] = browser.ask(
        "return [...document.querySelectorAll('main *, header *')].filter(e =>"
        " !e.closest('.wide, svg, .js-plotly-plot, .skip')"
        " && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    )
    return found


def covered_titles(browser: Browser) -> list[str]:
    """Titles of axes that lie on their numbers, or under the legend below."""
    found: list[str] = browser.ask(
        "const box = e => e.getBoundingClientRect();"
        "return [...document.querySelectorAll('.plot')].flatMap(p => {"
        " const legend = p.querySelector('.legend .bg');"
        " return [...p.querySelectorAll('text')].filter(t => {"
        "  const axis = [...t.classList].join(' ').match(/([xy][0-9]*)title/)?.[1];"
        "  if (!axis) return false;"
        "  const numbers = [...p.querySelectorAll(`.${axis}tick text`)].map(box);"
        "  if (axis[0] === 'y') return box(t).right > Math.min(...numbers.map(b => b.left)) + 1;"
        "  const ticks = numbers.map(b => b.bottom);"
        "  return box(t).top < Math.max(0, ...ticks) - 1"
        "   || (legend && box(t).bottom > box(legend).top + 1);"
        " }).map(t => t.textContent); })"
    )
    return found


def colours(browser: Browser) -> list[str]:
    """Of the page's paper, and of the text of the first figure."""
    found: list[str] = browser.ask(
        "return [getComputedStyle(document.body).backgroundColor,"
        " document.querySelector('.plot')._fullLayout.font.color]"
    )
    return found


def change_colours(browser: Browser) -> None:
    light = colours(browser)
    assert light[0] == "rgb(255, 255, 255)"
    browser.ask("document.getElementById('theme').click()")
    dark = colours(browser)
    assert dark[0] == "rgb(20, 23, 28)"
    assert dark[1] != light[1]
    browser.ask("document.getElementById('theme').click()")
    assert colours(browser) == light
    browser.ask("delete document.documentElement.dataset.theme")
    browser.prefer("dark")
    browser.wait("document.getElementById('theme').textContent === 'Light colours'")
    assert colours(browser) == dark


def print_out(browser: Browser) -> None:
    heights = "return [...document.querySelectorAll('.plot')].map(p => p._fullLayout.height)"
    shown = browser.ask(heights)
    browser.ask("dispatchEvent(new Event('beforeprint'))")
    widths = browser.ask(
        "return [...document.querySelectorAll('.plot')].map(p => p._fullLayout.width)"
    )
    assert max(widths) <= 700
    printed = browser.ask(heights)
    assert overlapping_titles(browser) == []
    assert colours(browser)[0] == "rgb(255, 255, 255)"
    browser.ask("dispatchEvent(new Event('afterprint'))")
    assert colours(browser)[0] == "rgb(20, 23, 28)"
    assert browser.ask(heights) == shown
    assert all(low <= high for low, high in zip(printed, shown, strict=True))
    browser.prefer("light")


def overlapping_titles(browser: Browser) -> list[str]:
    """Titles of panels that run into the next one's, in all figures."""
    found: list[str] = browser.ask(
        "return [...document.querySelectorAll('.plot')].flatMap(plot => {"
        " const all = [...plot.querySelectorAll('.annotation-text')]"
        "  .map(e => [e.textContent, e.getBoundingClientRect()]);"
        " return all.filter(([, a], i) => all.some(([, b], k) => k != i"
        "  && a.left < b.right + 8 && b.left < a.right + 8"
        "  && a.top < b.bottom && b.top < a.bottom))"
        "  .map(([text]) => text); })"
    )
    return found


@pytest.mark.slow
def test_on_paper_titles_of_six_panels_stay_apart(browser: Browser, tmp_path: Path) -> None:
    found, page = small_comparison(), tmp_path / "comparison.html"
    rows = tuple(replace(row, name=f"{row.name}, rate x 16") for row in found.rows)
    page.write_text("".join(comparison_page(replace(found, rows=rows))), "utf-8")
    browser.open(page)
    browser.ask("dispatchEvent(new Event('beforeprint'))")
    browser.wait("document.querySelector('.plot')._fullLayout.width <= 700")
    assert overlapping_titles(browser) == []
    browser.ask("dispatchEvent(new Event('afterprint'))")


@pytest.mark.slow
def test_printed_at_once_a_page_has_all_its_charts(
    browser: Browser, written: dict[tuple[str, bool], Path]
) -> None:
    drawn = "[...document.querySelectorAll('.plot')].filter(p => p._fullLayout?.width <= 700)"
    script = (
        "addEventListener('DOMContentLoaded', () => { dispatchEvent(new Event('beforeprint'));"
        f" window.printed = {drawn}.length; dispatchEvent(new Event('afterprint')); }});"
    )
    command = "Page.addScriptToEvaluateOnNewDocument"
    added = browser.driver.execute_cdp_cmd(command, {"source": script})
    browser.open(written["run", False])
    browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    assert browser.ask("return window.printed") == text_of("run", WORD).count('class="plot"') >= 8


@pytest.mark.slow
def test_charts_in_view_come_first_and_nothing_moves_when_the_others_come(
    browser: Browser, written: dict[tuple[str, bool], Path]
) -> None:
    watch = (
        "new MutationObserver(() => { if (document.documentElement.dataset.shown && !window.first)"
        " window.first = [[...document.querySelectorAll('.plot')].map(p => Boolean(p.data)),"
        "  document.documentElement.scrollHeight]; }).observe(document, {subtree: true,"
        " childList: true, attributes: true});"
    )
    command = "Page.addScriptToEvaluateOnNewDocument"
    added = browser.driver.execute_cdp_cmd(command, {"source": watch})
    browser.open(written["run", False])
    browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    drawn, height = browser.ask("return window.first")
    assert drawn[0]
    assert not drawn[-1]
    assert browser.ask("return document.documentElement.scrollHeight") == height


def test_on_paper_no_heading_is_left_alone(
    browser: Browser, written: dict[tuple[str, bool], Path]
) -> None:
    browser.open(written["comparison", False])
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    rules = browser.ask(
        "return [...document.querySelectorAll('h2, .see')].map(e => getComputedStyle(e).breakAfter)"
    )
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert len(rules) > 6
    assert set(rules) == {"avoid"}


def walk_by_keyboard(browser: Browser) -> None:
    odd = "document.querySelectorAll('[onclick], [tabindex]:not([tabindex=\"0\"])')"
    assert browser.ask(f"return {odd}.length") == 0
    for condition in (
        "[...document.querySelectorAll('.plot')].every(p => p.role === 'img'"
        " && p.getAttribute('aria-label').length > 20)",
        "[...document.querySelectorAll('.wide')].every(e => e.tabIndex === 0"
        " && e.getAttribute('aria-label'))",
        "[...document.querySelectorAll('section .see')].every(p => p.textContent.length > 20)",
    ):
        assert browser.ask(f"return {condition}"), condition
    browser.ask("document.querySelector('.skip').focus()")
    assert browser.ask("return document.querySelector('.skip').getBoundingClientRect().left") >= 0
    levels = browser.ask("return [...document.querySelectorAll('h1, h2')].map(h => h.tagName)")
    assert levels[0] == "H1"
    assert set(levels[1:]) == {"H2"}
