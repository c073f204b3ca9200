"""Scenes as files: SVG by itself, PNG, GIF and animated PNG with Pillow (extra ``pictures``)."""

from __future__ import annotations

from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Final

from kvsim.traces.common.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from PIL import Image
    from PIL.ImageFont import FreeTypeFont, ImageFont

    from kvsim.sim.block_map.scene import Picture, Rect, Scene

FRAMES: Final = 60
FRAME_MS: Final = 120
LAST_MS: Final = 1500
PNG_SCALE: Final = 2
SHADES: Final = 24
"""Between letters and paper."""


def svg(scene: Scene) -> str:
    """An SVG document; squares of one colour are one path, which keeps it small."""
    paths: dict[str, list[Rect]] = {}
    for rect in scene.rects:
        paths.setdefault(rect.fill, []).append(rect)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{scene.width}" height="{scene.height}" '
        f'viewBox="0 0 {scene.width} {scene.height}" '
        'font-family="Helvetica, Arial, sans-serif" shape-rendering="crispEdges">',
        f'<rect width="100%" height="100%" fill="{scene.palette["paper"]}"/>',
    ]
    for fill, rects in paths.items():
        outline = "".join(f"M{r.x} {r.y}h{r.width}v{r.height}h-{r.width}z" for r in rects)
        parts.append(f'<path fill="{fill}" d="{outline}"/>')
    for text in scene.texts:
        weight = ' font-weight="600"' if text.bold else ""
        parts.append(
            f'<text x="{text.x}" y="{text.y}" font-size="{text.size}" fill="{text.fill}"'
            f'{weight} text-anchor="{text.anchor}">{escape(printable(text.text))}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def check_pillow() -> None:
    """Say in one sentence how to get what draws pixels, where it is missing.

    Raises
    ------
    ValueError
        Where Pillow cannot be imported.
    """
    try:
        import PIL  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise ValueError(
            "PNG and GIF need Pillow: pip install 'kvsim[pictures]' (SVG needs nothing)"
        ) from None


def image(scene: Scene, scale: int = 1) -> Image.Image:
    """The scene in pixels, ``scale`` to one of its units."""
    from PIL import Image, ImageDraw  # noqa: PLC0415 - an extra

    picture = Image.new("RGB", (scene.width * scale, scene.height * scale), scene.palette["paper"])
    draw = ImageDraw.Draw(picture)
    for x, y, width, height, fill in scene.rects:
        if width > 0:
            corner = ((x + width) * scale - 1, (y + height) * scale - 1)
            draw.rectangle(((x * scale, y * scale), corner), fill=fill)
    for text in scene.texts:
        place = (text.x * scale, text.y * scale)
        anchor = "ls" if text.anchor == "start" else "rs"
        font = _font(text.size * scale)
        draw.text(place, printable(text.text), fill=text.fill, font=font, anchor=anchor)
    return picture


@lru_cache
def _font(size: int) -> FreeTypeFont | ImageFont:
    """Pillow's own font, which is the same everywhere."""
    from PIL import ImageFont  # noqa: PLC0415 - an extra

    return ImageFont.load_default(size)


def save_png(scene: Scene, path: Path) -> None:
    """Write a PNG of few colours, as sharp as a screen of today."""
    from PIL import Image  # noqa: PLC0415 - an extra

    picture = image(scene, PNG_SCALE).quantize(palette=_palette([scene]), dither=Image.Dither.NONE)
    picture.save(path, format="PNG", optimize=True)


def _palette(scenes: Sequence[Scene]) -> Image.Image:
    """All colours of the scenes, exactly, and what lies between letters and paper."""
    from PIL import Image, ImageColor  # noqa: PLC0415 - an extra

    ground = scenes[0].palette["paper"]
    paper = ImageColor.getrgb(ground)
    fills = {rect.fill for scene in scenes for rect in scene.rects} | {ground}
    colours: list[tuple[int, ...]] = [ImageColor.getrgb(fill) for fill in sorted(fills)]
    for fill in sorted({text.fill for scene in scenes for text in scene.texts}):
        ink = ImageColor.getrgb(fill)
        for part in range(SHADES + 1):
            between = zip(ink, paper, strict=True)
            colours.append(tuple(one + (other - one) * part // SHADES for one, other in between))
    palette = Image.new("P", (1, 1))
    palette.putpalette([channel for colour in colours for channel in colour])
    return palette


def save_animation(picture: Picture, path: Path, *, as_png: bool = False) -> None:
    """Write the whole run as a GIF or animated PNG that starts anew after a pause."""
    from PIL import Image  # noqa: PLC0415 - an extra

    scenes = [picture.scene(time_ps) for time_ps in frame_times(picture)]
    height = max(scene.height for scene in scenes)  # lines of text may break elsewhere
    for scene in scenes:
        scene.height = height
    palette = _palette(scenes)
    frames = [image(scene).quantize(palette=palette, dither=Image.Dither.NONE) for scene in scenes]
    durations = [FRAME_MS] * (len(frames) - 1) + [LAST_MS]
    frames[0].save(
        path,
        format="PNG" if as_png else "GIF",
        save_all=True,
        append_images=frames[1:],
        duration=durations,
        loop=0,
    )


def frame_times(picture: Picture) -> list[int]:
    """Times of at most ``FRAMES`` frames, evenly spread over all maps."""
    times = [int(time) for one in picture.maps for time in one.time_ps]
    first, last = min(times, default=0), max(times, default=0)
    count = min(FRAMES, max(map(len, picture.maps), default=0))
    return [first + (last - first) * number // max(count - 1, 1) for number in range(count)] or [0]
