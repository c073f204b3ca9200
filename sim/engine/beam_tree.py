"""Which beams survive: a seeded tree, since no model is there to score them.

Law: after each token that the beams of a request sample, with probability ``turnover`` they are
drawn anew, each going on from one of the beams so far, all equally likely, independently; else each
goes on from itself. (Wright-Fisher resampling: any two beams that are drawn anew come from one
with probability 1 / width, so that their last common token lies ``width / turnover`` tokens back
in the mean.) Each request draws from its own generator, so what it draws depends on nothing else.
"""

from __future__ import annotations

from random import Random


class BeamTree:
    """``turnover``: the probability of the module docstring; one generator a request."""

    def __init__(self, seed: int, turnover: float) -> None:
        self._seed = seed
        self._turnover = turnover
        self._generators: dict[int, Random] = {}

    def parents(self, index: int, width: int) -> list[int] | None:
        """Where the beams of request ``index`` go on from; ``None``: each from itself."""
        draws = self._generators.get(index)
        if draws is None:
            draws = self._generators[index] = Random(f"beams/{self._seed}/{index}")
        if draws.random() >= self._turnover:
            return None
        return [draws.randrange(width) for _ in range(width)]
