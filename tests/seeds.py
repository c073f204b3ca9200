"""Tests of random scenarios: a seed each, so that a failure is told by a number, and at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable


def for_seeds(num: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test with so many values of ``seed``, more at night.

    Scenarios are drawn by ``random.Random(seed)``: what hypothesis would draw by itself takes
    longer than a small run, and is not reproduced by one number.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        examples = settings(max_examples=max(num, settings().max_examples))
        decorated: Callable[..., None] = given(seed=st.integers(0, 2**32 - 1))(examples(test))
        return decorated

    return decorate
