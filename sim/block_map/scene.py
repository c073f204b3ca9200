"""A still of one or more maps at one time, as rectangles and texts that any format can draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.sim.block_map.colours import (
    LABELS,
    LIGHT,
    LOOKS,
    OWNERS,
    PALE,
    Shown,
    look_shares,
    num_columns,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kvsim.sim.block_map.block_map import BlockMap

MARGIN: Final = 24
GUTTER: Final = 32
PANEL: Final = 320
LARGEST_CELL: Final = 40
MOST_IN_A_ROW: Final = 4
NO_BREAK: Final = "\u00a0"
_LETTER: Final = 0.5
"""Width of a letter, of its height; enough to break lines by."""


class Rect(NamedTuple):
    """A filled rectangle."""

    x: int
    y: int
    width: int
    height: int
    fill: str


class Text(NamedTuple):
    """One line; ``y`` is its base line, ``anchor`` is ``start`` or ``end``."""

    x: int
    y: int
    text: str
    size: int
    fill: str
    anchor: str = "start"
    bold: bool = False


@dataclass(slots=True)
class Scene:
    """A picture of so many pixels on paper; ``palette`` names its colours."""

    width: int
    height: int = 0
    palette: Mapping[str, str] = field(default_factory=lambda: LIGHT)
    rects: list[Rect] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Picture:
    """Draws scenes of the same maps, coloured by ``state`` or by ``request``, as ``palette`` says.

    ``shares`` are those of the pool by look, (snapshots, looks), a map each.
    """

    maps: Sequence[BlockMap]
    shown: Sequence[Shown]
    shares: Sequence[NDArray[np.float64]]
    colour: str = "state"
    palette: Mapping[str, str] = field(default_factory=lambda: LIGHT)

    @staticmethod
    def of(
        maps: Sequence[BlockMap], colour: str = "state", palette: Mapping[str, str] = LIGHT
    ) -> Picture:
        """Prepare the looks of all maps once."""
        shown, shares = map(Shown.of, maps), map(look_shares, maps)
        return Picture(maps, list(shown), list(shares), colour, palette)

    def fullest_ps(self) -> int:
        """When owners hold most of all pools together; the first of equal times."""
        times = sorted({time_ps for one in self.maps for time_ps in one.time_ps.tolist()})
        return max(times, key=self._fullness, default=0)

    def _fullness(self, time_ps: int) -> float:
        return sum(
            float(shares[one.at(time_ps), :4].sum())
            for one, shares in zip(self.maps, self.shares, strict=True)
            if len(one)
        )

    def scene(self, time_ps: int) -> Scene:
        """The maps side by side at one time, under one heading and above one legend."""
        count = min(len(self.maps), MOST_IN_A_ROW)
        width = 2 * MARGIN + count * PANEL + (count - 1) * GUTTER
        scene = Scene(width, palette=self.palette)
        y = _heading(scene, self.maps[0], time_ps)
        for first in range(0, len(self.maps), MOST_IN_A_ROW):
            row = range(first, min(first + MOST_IN_A_ROW, len(self.maps)))
            bottoms = [
                self._panel(scene, number, MARGIN + place * (PANEL + GUTTER), y, time_ps)
                for place, number in enumerate(row)
            ]
            y = max(bottoms) + GUTTER // 2
        scene.height = self._legend(scene, y) + MARGIN // 2
        return scene

    def squares(self, number: int, time_ps: int) -> Scene:
        """One map at one time, with the bar of its shares and without a word."""
        found = self.maps[number]
        pitch = _pitch(num_columns(found.grid.num_cells))
        scene = Scene(pitch * num_columns(found.grid.num_cells), palette=self.palette)
        at = found.at(time_ps)
        y = self._cells(scene, number, 0, 0, at) + 8
        shares = self.shares[number][at].tolist() if len(found) else [0.0] * len(LOOKS)
        scene.height = _bar(scene, shares, 0, y, scene.width)
        return scene

    def _panel(self, scene: Scene, number: int, x: int, y: int, time_ps: int) -> int:
        """One map; returns where it ends."""
        found = self.maps[number]
        scene.texts.append(Text(x, y + 14, found.facts.name, 16, self.palette["ink"], bold=True))
        y = _lines(scene, found.facts.allocator, x, y + 32, PANEL) - 2
        y = self._cells(scene, number, x, y, found.at(time_ps)) + 8
        if not len(found):
            return _lines(scene, "no snapshot was taken", x, y + 12, PANEL)
        shares = self.shares[number][found.at(time_ps)]
        if self.colour == "state":
            columns = num_columns(found.grid.num_cells)
            y = _bar(scene, shares.tolist(), x, y, _pitch(columns) * columns)
        return _lines(scene, share_words(shares.tolist()), x, y + 12, PANEL)

    def _cells(self, scene: Scene, number: int, x: int, y: int, at: int) -> int:
        """The squares of one snapshot, each in at most two parts; returns where they end."""
        found, shown = self.maps[number], self.shown[number]
        num_cells = found.grid.num_cells
        columns = num_columns(num_cells)
        pitch = _pitch(columns)
        side = pitch - 1 if pitch >= 4 else pitch
        if len(found):
            looks = zip(
                shown.first[at].tolist(),
                shown.second[at].tolist(),
                shown.share[at].tolist(),
                found.owner[at].tolist(),
                strict=True,
            )
            for cell, (one, other, share, owner) in enumerate(looks):
                left, top = x + cell % columns * pitch, y + cell // columns * pitch
                width = round(side * share / 255)
                rects = ((left, width, one), (left + width, side - width, other))
                for start, wide, look in rects:
                    if wide:
                        fill = self._fill(LOOKS[look], owner)
                        scene.rects.append(Rect(start, top, wide, side, fill))
        return y + -(-num_cells // columns) * pitch

    def _fill(self, look: str, owner: int) -> str:
        if self.colour == "state":
            return self.palette[look]
        if look == "token":
            return OWNERS[max(owner, 0) % len(OWNERS)]
        if look in ("reserved", "internal"):
            return pale(OWNERS[max(owner, 0) % len(OWNERS)])
        palette = self.palette
        return {"shared": palette["ink"], "cached": palette["dim"]}.get(look, palette["free"])

    def _legend(self, scene: Scene, y: int) -> int:
        """What the colours say, in as many lines as it takes; returns where it ends."""
        palette = self.palette
        if self.colour == "state":
            entries = [(palette[look], LABELS[look]) for look in LOOKS]
        else:
            entries = [
                (OWNERS[0], "tokens, a colour a request"),
                (pale(OWNERS[0]), "owned, without a token"),
                (palette["ink"], "shared by several requests"),
                (palette["dim"], "cached, nobody's"),
                (palette["free"], "free or unusable"),
            ]
        x = MARGIN
        for fill, label in entries:
            width = 30 + int(_LETTER * 12 * len(label))
            if x > MARGIN and x + width > scene.width - MARGIN:
                x, y = MARGIN, y + 20
            scene.rects.append(Rect(x, y, 11, 11, fill))
            scene.texts.append(Text(x + 17, y + 10, label, 12, palette["ink"]))
            x += width + 8
        return y + 20


def share_words(shares: Sequence[float]) -> str:
    """Shares of a pool by look in words, without those that round to nothing."""
    return ", ".join(
        f"{look} {100 * share:.1f} %".replace(" ", NO_BREAK)
        for look, share in zip(LOOKS, shares, strict=True)
        if share >= 0.0005
    )


def pale(fill: str) -> str:
    """A colour thinned with white."""
    channels = (int(fill[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(PALE * one + (1 - PALE) * 255):02x}" for one in channels)


def _pitch(columns: int) -> int:
    """Pixels from one cell to the next."""
    return min(max(PANEL // columns, 1), LARGEST_CELL)


def _bar(scene: Scene, shares: list[float], x: int, y: int, width: int) -> int:
    """Shares of the pool, one after the other; returns where it ends."""
    left = 0.0
    for look, share in zip(LOOKS, shares, strict=True):
        start, end = x + round(left * width), x + round((left + share) * width)
        scene.rects.append(Rect(start, y, end - start, 8, scene.palette[look]))
        left += share
    return y + 13


def _heading(scene: Scene, found: BlockMap, time_ps: int) -> int:
    facts = found.facts
    text = f"{facts.trace} · {facts.model} · {facts.hardware} · t = {time_ps / 10**12:.4g} s"
    return _lines(scene, text, MARGIN, MARGIN + 8, scene.width - 2 * MARGIN) + 10


def _lines(scene: Scene, text: str, x: int, y: int, width: int) -> int:
    """Dim text of 12 pixels in lines of at most so many; returns where the next would be."""
    most, line = int(width / (_LETTER * 12)), ""
    lines = []
    for word in text.split(" "):
        if line and len(line) + 1 + len(word) > most:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    for number, one in enumerate([*lines, line]):
        words = one.replace(NO_BREAK, " ")
        scene.texts.append(Text(x, y + 16 * number, words, 12, scene.palette["muted"]))
    return y + 16 * (len(lines) + 1)
