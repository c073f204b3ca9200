"""The page of block maps: its data, its size, and what a real browser makes of it."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.sim.block_map import page as page_module
from kvsim.sim.block_map.colours import LOOKS, Shown, look_shares
from kvsim.sim.block_map.page import block_map_page, fitted

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.sim.block_map import BlockMap
    from tests.browser import Browser

PIXELS = (
    "return [...document.querySelectorAll('canvas.map')].map("
    "(c) => c.toDataURL().length + ':' + c.toDataURL().slice(-400))"
)
NOW = "return document.getElementById('bm-now').textContent"


def plane(panel: dict[str, Any], name: str) -> np.ndarray:
    changes = np.frombuffer(
        zlib.decompress(base64.b64decode(panel["planes"][name])), dtype=np.uint8
    ).reshape(-1, panel["cells"])
    return np.bitwise_xor.accumulate(changes, axis=0)


def test_planes_unpack_to_the_looks(maps: list[BlockMap]) -> None:
    for found, panel in zip(maps, fitted(maps), strict=True):
        shown = Shown.of(found)
        looks = plane(panel, "looks")
        assert np.array_equal(looks & 15, shown.first)
        assert np.array_equal(looks >> 4, shown.second)
        assert np.array_equal(plane(panel, "share"), shown.share)
        owner = plane(panel, "owner0") + 256 * plane(panel, "owner1").astype(int) - 1
        assert np.array_equal(owner, found.owner)
        assert np.array_equal(plane(panel, "evicted") > 0, found.evicted > 0)


def test_looks_show_the_two_largest_parts(maps: list[BlockMap]) -> None:
    shown = Shown.of(maps[1])
    assert (shown.first <= shown.second).all()
    assert (shown.share[shown.first == shown.second] == 255).all()
    assert np.allclose(look_shares(maps[1]).sum(axis=1), 1)
    assert (shown.first[maps[1].owners > 1] == LOOKS.index("shared")).all()


def test_names_from_outside_are_text(maps: list[BlockMap]) -> None:
    html = "".join(block_map_page(maps))
    assert "<b>trace" not in html
    assert "<i>tree" not in html
    assert html.count("</script>") == 3
    assert "http" not in html.replace("http-equiv", "").replace("http://www.w3.org", "")


def test_the_same_maps_give_the_same_page(maps: list[BlockMap]) -> None:
    assert "".join(block_map_page(maps)) == "".join(block_map_page(maps))


def test_snapshots_are_left_out_where_all_are_too_many(
    maps: list[BlockMap], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = fitted(maps[1:2])
    size = len(json.dumps(whole))
    monkeypatch.setattr(page_module, "MOST_BYTES", size // 3)
    (panel,) = fitted(maps[1:2])
    assert len(json.dumps(panel["planes"])) < size // 2
    every = round(len(whole[0]["seconds"]) / len(panel["seconds"]))
    assert every >= 2
    assert panel["seconds"] == whole[0]["seconds"][::every]
    lost = plane(panel, "evicted").any(axis=0)
    assert np.array_equal(lost, plane(whole[0], "evicted").any(axis=0))


@pytest.mark.slow
def test_the_largest_map_fits(maps: list[BlockMap]) -> None:
    """Noise does not compress: three maps of full size must be thinned to stay below 8 MB."""
    rng = np.random.default_rng(0)
    count, cells = 240, 4096
    facts = replace(maps[1].facts, num_slots=16 * cells)
    slots = np.zeros((count, maps[1].slots.shape[1], cells), dtype=np.int32)
    slots[:, 0] = rng.integers(0, 17, (count, cells))
    slots[:, 7] = 16 - slots[:, 0]
    noise = replace(
        maps[1],
        facts=facts,
        time_ps=np.arange(count) * 10**9,
        running=np.zeros(count, dtype=np.int32),
        waiting=np.zeros(count, dtype=np.int32),
        slots=slots,
        owner=rng.integers(0, 5000, (count, cells)).astype(np.int32),
        owners=rng.integers(0, 3, (count, cells)).astype(np.int32),
        evicted=rng.integers(0, 2, (count, cells)).astype(np.int32),
    )
    assert len("".join(block_map_page([noise] * 3))) < 8 * 10**6


# ---- in a browser ------------------------------------------------------------------------------


@pytest.fixture
def opened(browser: Browser, maps: list[BlockMap], tmp_path: Path) -> Browser:
    """The page with three maps, drawn."""
    path = tmp_path / "block-map.html"
    path.write_text("".join(block_map_page(maps)), encoding="utf-8")
    browser.prefer("light")
    browser.open(path, 1300, 1000)
    browser.wait("document.documentElement.dataset.blockMap === 'ready'")
    return browser


def press(browser: Browser, key: str) -> None:
    browser.ask(
        "document.body.dispatchEvent(new KeyboardEvent('keydown', "
        "{key: arguments[0], bubbles: true, cancelable: true}))",
        key,
    )


def move_slider(browser: Browser, value: int) -> None:
    browser.ask(
        "const s = document.getElementById('bm-time'); s.value = arguments[0];"
        "s.dispatchEvent(new Event('input', {bubbles: true}))",
        value,
    )


def test_it_draws_quietly_and_by_itself(opened: Browser) -> None:
    assert opened.errors() == []
    assert opened.requests() == []
    names = opened.ask("return [...document.querySelectorAll('figure h2')].map(h => h.textContent)")
    assert names == ["contiguous", "blocks", "<i>tree</i>"]
    heading = opened.ask("return document.querySelector('h1').textContent")
    assert heading == "Block map of </script><b>trace</b>"


def test_the_slider_moves_all_pictures(opened: Browser) -> None:
    move_slider(opened, 300)
    before, then = opened.ask(PIXELS), opened.ask(NOW)
    move_slider(opened, 600)
    after = opened.ask(PIXELS)
    assert all(one != other for one, other in zip(before, after, strict=True))
    assert opened.ask(NOW) != then
    assert opened.errors() == []


def test_keys_step_jump_and_recolour(opened: Browser) -> None:
    times = []
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowLeft", "PageDown", "End"):
        press(opened, key)
        times.append(float(opened.ask(NOW).split()[2]))
    home, one, two, back, far, end = times
    assert home < one < two
    assert back == one
    assert two < far < end
    press(opened, "PageUp")
    by_state = opened.ask(PIXELS)
    press(opened, "c")
    assert opened.ask("return document.querySelector('[value=request]').checked")
    assert opened.ask(PIXELS) != by_state


def test_it_plays_to_the_end_and_stops(opened: Browser) -> None:
    press(opened, "Home")
    start = opened.ask(NOW)
    press(opened, " ")
    opened.wait(f"document.getElementById('bm-now').textContent !== {start!r}")
    press(opened, "End")
    end = opened.ask(NOW)
    press(opened, "PageUp")
    press(opened, " ")
    opened.wait("document.getElementById('bm-play').textContent === 'Play'")
    assert opened.ask(NOW) == end


def test_a_press_plays_and_another_one_pauses(opened: Browser) -> None:
    """Both in one script: on a busy machine it could play to its end between two of them."""
    words = opened.ask(
        "return [1, 2].map(() => { document.body.dispatchEvent("
        "new KeyboardEvent('keydown', {key: ' ', bubbles: true, cancelable: true}));"
        "return document.getElementById('bm-play').textContent; })"
    )
    assert words == ["Pause", "Play"]


def test_the_mouse_is_told_what_a_square_is(opened: Browser) -> None:
    move_slider(opened, 500)
    tips = opened.ask(
        "const c = document.querySelectorAll('canvas.map')[1], b = c.getBoundingClientRect();"
        "const tip = document.getElementById('bm-tip');"
        "return [0.5, 3.5].map((at) => { const p = b.width / 16;"
        "c.dispatchEvent(new PointerEvent('pointermove', {clientX: b.left + at * p,"
        "clientY: b.top + 0.5 * p, bubbles: true})); return tip.textContent; })"
    )
    assert tips[0].startswith("block 0\nall external")
    assert tips[1].startswith("block 3\n")
    assert "request " in tips[1] or "cached" in tips[1] or "free" in tips[1]


def test_dark_colours_and_a_phone(opened: Browser) -> None:
    light = opened.ask(PIXELS)
    opened.ask("document.getElementById('theme').click()")
    opened.wait("document.documentElement.dataset.theme === 'dark'")
    assert opened.ask(PIXELS) != light
    opened.resize(390, 844)
    opened.wait("document.querySelector('canvas.map').getBoundingClientRect().width < 380")
    assert opened.ask("return document.documentElement.scrollWidth") <= 390
    assert opened.errors() == []


def test_a_map_without_snapshots_says_so(
    browser: Browser, maps: list[BlockMap], tmp_path: Path
) -> None:
    nothing = replace(
        maps[1],
        **{
            name: getattr(maps[1], name)[:0]
            for name in ("time_ps", "running", "waiting", "slots", "owner", "owners", "evicted")
        },
    )
    path = tmp_path / "empty.html"
    path.write_text("".join(block_map_page([nothing])), encoding="utf-8")
    browser.open(path)
    browser.wait("document.documentElement.dataset.blockMap === 'ready'")
    words = browser.ask("return document.querySelector('.numbers').textContent")
    assert words == "no snapshot was taken"
    assert browser.errors() == []
