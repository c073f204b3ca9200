"""Pictures of block maps: the right squares in the right colours, the same bytes each time."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from PIL import Image

from kvsim.sim.block_map import stills
from kvsim.sim.block_map.colours import DARK, LABELS, LIGHT, LOOKS, Shown, num_columns
from kvsim.sim.block_map.scene import MARGIN, Picture
from kvsim.sim.block_map.stills import (
    check_pillow,
    frame_times,
    image,
    save_animation,
    save_png,
    svg,
)

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.sim.block_map import BlockMap


def test_squares_have_the_colours_of_what_they_hold(maps: list[BlockMap]) -> None:
    blocks = maps[1]
    picture = Picture.of([blocks])
    time_ps = picture.fullest_ps()
    scene = picture.scene(time_ps)
    pixels = image(scene)
    top = next(rect.y for rect in scene.rects)
    columns, at, shown = num_columns(blocks.grid.num_cells), blocks.at(time_ps), Shown.of(blocks)
    pitch = 320 // columns
    for cell in range(blocks.grid.num_cells):
        x, y = MARGIN + cell % columns * pitch, top + cell // columns * pitch
        if shown.share[at, cell] == 255:
            colour = LIGHT[LOOKS[shown.first[at, cell]]]
            assert "#{:02x}{:02x}{:02x}".format(*pixels.getpixel((x, y))) == colour  # type: ignore[misc]


def test_squares_alone_are_those_of_the_still(maps: list[BlockMap]) -> None:
    time_ps = Picture.of(maps).fullest_ps()
    for number, one in enumerate(maps):
        alone = Picture.of(maps, palette=DARK).squares(number, time_ps)
        whole = Picture.of([one], palette=DARK).scene(time_ps)
        left, top = whole.rects[0].x, whole.rects[0].y
        moved = [rect._replace(x=rect.x + left) for rect in alone.rects]
        squares = [rect for rect in moved if rect.y < alone.height - 13 - 8]
        assert [rect._replace(y=rect.y + top) for rect in squares] == whole.rects[: len(squares)]
        assert alone.texts == []
        assert f'fill="{DARK["paper"]}"' in svg(alone)
        assert LIGHT["free"] not in svg(alone)


def test_the_words_of_a_still(maps: list[BlockMap]) -> None:
    scene = Picture.of(maps).scene(10**12)
    words = [text.text for text in scene.texts]
    assert words[0].endswith("t = 1 s")
    assert {"contiguous", "blocks", "<i>tree</i>"} <= set(words)
    assert set(LABELS.values()) <= set(words)
    for text in scene.texts:
        assert 0 < text.y < scene.height
    assert max(rect.x + rect.width for rect in scene.rects) <= scene.width - MARGIN


def test_svg_is_xml_with_every_name_as_text(maps: list[BlockMap]) -> None:
    text = svg(Picture.of(maps).scene(2 * 10**12))
    root = ET.fromstring(text)
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "<i>tree</i>" in texts
    assert text == svg(Picture.of(maps).scene(2 * 10**12))


def test_more_than_four_maps_take_another_row(maps: list[BlockMap]) -> None:
    few, many = Picture.of(maps[:1] * 4).scene(0), Picture.of(maps[:1] * 5).scene(0)
    assert few.width == many.width
    assert many.height > 1.5 * few.height


def test_png_and_animations_are_small_and_the_same_each_time(
    maps: list[BlockMap], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stills, "FRAMES", 15)
    picture = Picture.of(maps)
    scene = picture.scene(picture.fullest_ps())
    for name in ("one", "other"):
        save_png(scene, tmp_path / f"{name}.png")
        save_animation(picture, tmp_path / f"{name}.gif")
        save_animation(picture, tmp_path / f"{name}.apng", as_png=True)
    for kind, most in (("png", 10**5), ("gif", 2 * 10**6), ("apng", 4 * 10**6)):
        one = (tmp_path / f"one.{kind}").read_bytes()
        assert one == (tmp_path / f"other.{kind}").read_bytes()
        assert len(one) < most
    with Image.open(tmp_path / "one.png") as still:
        assert still.size == (2 * scene.width, 2 * scene.height)
    for kind in ("gif", "apng"):
        with Image.open(tmp_path / f"one.{kind}") as animation:
            num_frames = animation.n_frames  # type: ignore[attr-defined]
        assert 10 < num_frames <= len(frame_times(picture)) == 15


def test_colours_by_owner_differ(maps: list[BlockMap]) -> None:
    by_owner = svg(Picture.of(maps, "request").scene(2 * 10**12))
    assert "a colour a request" in by_owner
    assert LIGHT["internal"] not in by_owner
    assert by_owner != svg(Picture.of(maps).scene(2 * 10**12))


def test_a_map_without_snapshots_has_a_picture(maps: list[BlockMap], tmp_path: Path) -> None:
    names = ("time_ps", "running", "waiting", "slots", "owner", "owners", "evicted")
    nothing = replace(maps[1], **{name: getattr(maps[1], name)[:0] for name in names})
    picture = Picture.of([nothing])
    assert "no snapshot was taken" in svg(picture.scene(picture.fullest_ps()))
    save_animation(picture, tmp_path / "empty.gif")


def test_without_pillow_one_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    check_pillow()
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ValueError, match=r"need Pillow: pip install 'kvsim\[pictures\]'"):
        check_pillow()
