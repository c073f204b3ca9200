"""Tests of random scenarios: a seed each, so that a failure is told by a number, and at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable


def for_seeds(num: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call a test with ``num`` values of ``seed``, or with 2,000 at night.

    Scenarios are drawn by ``random.Random(seed)``: what hypothesis would draw by itself takes
    longer than a small run, and is not reproduced by one number.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        usual = settings().max_examples
        examples = settings(max_examples=num if usual <= 100 else max(num, usual))
        decorated: Callable[..., None] = given(seed=st.integers(0, 2**32 - 1))(examples(test))
        return decorated

    return decorate
