"""Colours stay apart for three kinds of colour-blind eyes, and can be seen on either paper.

Eyes as Vienot, Brettel and Mollon (1999) and Machado, Oliveira and Fernandes (2009) model them;
distances as CIE 1976 in L*a*b*.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.sim.report.palette import CYCLE, OURS, STATE_LABELS, THEIRS

if TYPE_CHECKING:
    from numpy.typing import NDArray

EYES = {
    "all cones": np.eye(3),
    "no red": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "no green": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "no blue": np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]),
}
APART = 15.0
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
PAPERS = ("#ffffff", "#14171c")


def linear(colour: str) -> NDArray[np.float64]:
    values = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    ratio = XYZ @ np.clip(rgb, 0, 1) / XYZ.sum(axis=1)
    x, y, z = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(eye: str, first: str, second: str) -> float:
    ours, theirs = (lab(EYES[eye] @ linear(colour)) for colour in (first, second))
    return float(np.linalg.norm(ours - theirs))


def contrast(colour: str, paper: str) -> float:
    bright, dark = sorted((float(XYZ[1] @ linear(c)) for c in (colour, paper)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


STATES = [colour for _, colour in STATE_LABELS.values() if colour.startswith("#")]


@pytest.mark.parametrize("eye", EYES)
@pytest.mark.parametrize("colours", [STATES, CYCLE[:6], (OURS, THEIRS)])
def test_any_two_are_apart(eye: str, colours: list[str]) -> None:
    near = {
        pair: round(distance(eye, *pair), 1)
        for pair in combinations(colours, 2)
        if distance(eye, *pair) < APART
    }
    assert near == {}


@pytest.mark.parametrize("paper", PAPERS)
def test_curves_are_seen_on_both_papers(paper: str) -> None:
    assert min(contrast(colour, paper) for colour in CYCLE) > 2


def test_the_measure_tells_two_greens_apart_from_none() -> None:
    pair = "#a05000", "#707000"
    assert distance("no green", *pair) < APART < distance("all cones", *pair)
