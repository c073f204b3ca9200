"""Figures show today's numbers, and the text beside them quotes the same."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from docs.figures.make import FOLDER, NUMBERS, draw, measure
from docs.figures.svg import Curve, Stack, bars, curves, stacks, stacks_beside

ROOT = Path(__file__).resolve().parents[2]
ASK = "run: python -m docs.figures.make"


@pytest.fixture(scope="module")
def numbers() -> dict[str, Any]:
    stored: dict[str, Any] = json.loads(NUMBERS.read_text("utf-8"))
    return stored


def test_the_numbers_are_todays(numbers: dict[str, Any]) -> None:
    assert json.loads(json.dumps(measure())) == numbers, ASK


def test_the_pictures_are_drawn_from_them(numbers: dict[str, Any]) -> None:
    pictures = draw(numbers)
    assert sorted(pictures) == sorted(path.name for path in FOLDER.glob("*.svg"))
    for name, text in pictures.items():
        assert (FOLDER / name).read_text("utf-8") == text, ASK


def test_a_stack_shows_its_states_in_order_and_as_wide_as_they_are() -> None:
    colours = {"a": ("first", "#000000"), "b": ("second", "#ffffff")}
    picture = ET.fromstring(stacks("t", [Stack("row", {"a": 0.75, "b": 0.25})], colours))
    widths = [float(rect.get("width", 0)) for rect in _all(picture, "rect")]
    assert widths[:2] == [11, 11], "the legend"
    assert widths[2] == pytest.approx(3 * widths[3], abs=0.2)
    assert [text.text for text in _all(picture, "text")] == [
        "t",
        "first",
        "second",
        "row",
        "75",
        "25",
    ]


def test_stacks_beside_bars_have_one_line_and_one_scale_each() -> None:
    colours = {"a": ("first", "#000000"), "b": ("second", "#ffffff")}
    rows = [Stack("x", {"a": 0.75, "b": 0.25}, "two"), Stack("y", {"a": 0.04, "b": 0.5}, "8")]
    picture = ET.fromstring(stacks_beside(("t", "u"), rows, [2.0, 8.0], colours))
    assert picture.get("width") == "720"
    rects = [
        [float(rect.get(key, 0)) for key in ("x", "y", "width")] for rect in _all(picture, "rect")
    ]
    _, _, a, b, slow, c, d, fast = rects
    assert a[2] == pytest.approx(3 * b[2], abs=0.2)
    assert (c[2], d[2]) == pytest.approx((a[2] * 0.04 / 0.75, a[2] * 0.5 / 0.75), abs=0.2)
    assert fast[2] == pytest.approx(4 * slow[2], abs=0.3)
    assert a[1] == b[1] == slow[1] < c[1] == d[1] == fast[1]
    assert slow[0] == fast[0] > b[0] + b[2]
    texts = [text.text for text in _all(picture, "text")]
    assert texts == ["t", "first", "second", "u", "x", "75", "25", "two", "y", "50", "8"]


def test_bars_are_drawn_to_scale_and_escape_their_words() -> None:
    picture = ET.fromstring(bars("a < b", [("one", 1.0, "1"), ("four", 4.0, "4")]))
    first, second = (float(rect.get("width", 0)) for rect in _all(picture, "rect"))
    assert second == pytest.approx(4 * first, abs=0.3)


def test_a_curve_on_two_logarithmic_axes_is_straight_for_a_power() -> None:
    line = Curve("line", "#000", [(1, 1), (10, 10), (100, 100)])
    ticks = [(1, "1"), (100, "100")]
    picture = ET.fromstring(curves("t", [line], ticks, ticks, "x", log_y=True))
    (points,) = (item.get("points", "") for item in _all(picture, "polyline"))
    (x0, y0), (x1, y1), (x2, y2) = (map(float, point.split(",")) for point in points.split())
    assert (2 * x1, 2 * y1) == pytest.approx((x0 + x2, y0 + y2), abs=0.2)
    assert y0 > y2, "larger values stand higher"


def _all(picture: ET.Element, tag: str) -> list[ET.Element]:
    return picture.findall(f".//{{http://www.w3.org/2000/svg}}{tag}")


def test_the_text_says_what_the_figures_show(numbers: dict[str, Any]) -> None:
    page = " ".join((ROOT / "docs/paging.md").read_text("utf-8").split())
    cache, sizes, reuse = numbers["cache"], numbers["sizes"], numbers["reuse"]
    waste, compared = numbers["waste"], numbers["comparison"]
    assert f"takes {cache['with_ms'][-1]:.1f} ms with a cache and " in page
    assert f"and {cache['without_ms'][-1]:.0f} ms without" in page
    assert f"would take {sizes['opt-13b']:.2f} GiB" in page
    assert f"takes {sizes['llama-3.1-8b']:.2f} GiB" in page
    assert f"for all heads, and takes {sizes['deepseek-v3']:.2f} GiB" in page
    assert f"{waste['orca-max']['internal']:.0f} % is *internal* fragmentation" in page
    assert f"Another {waste['orca-max']['reserved']:.0f} %" in page
    assert min(waste[name]["external"] for name in ("orca-pow2", "orca-oracle")) > 100 / 3
    assert f"{waste['vllm-0.32-sync']['token']:.0f} % of the memory holds tokens" in page
    for found in compared.values():
        assert f"| {found['requests_per_s']:.1f} |" in page
    assert f"{reuse['ceiling_percent']:.1f} % of all prompt tokens" in page
    assert f"5,000 blocks finds {reuse['percent'][3]:.1f} %" in page
