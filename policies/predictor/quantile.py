"""A quantile of the finished output lengths, by class of prompt length, learnt during the run.

Prompts of one class have the same number of binary digits (512 to 1,023 tokens are one class).
Until ``MIN_ANSWERS`` outputs of a class have finished, all classes count together. Until
``MIN_ANSWERS`` outputs of all classes have finished, the prediction is ``predictor.prior``. While
an output grows, only longer finished outputs are compared with it; the prediction is the quantile
among those. An output that is longer than all finished ones is expected to double.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from typing import TYPE_CHECKING, Final

from kvsim.policies.predictor.base import conditioned, sampled_tokens

if TYPE_CHECKING:
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence

MIN_ANSWERS: Final = 8


class Quantile:
    """See the module docstring; a prediction is O(log outputs)."""

    name = "quantile"
    uses_oracle = False
    predicts = True

    def __init__(self, context: PolicyContext) -> None:
        self._config = context.config
        self._all: list[int] = []
        self._by_class: dict[int, list[int]] = {}

    def output_tokens(self, sequence: Sequence) -> int:
        """Return the quantile of the compared lengths, limited to what is allowed."""
        return conditioned(self._guess(sequence), sequence, self._config.max_model_len)

    def finished(self, sequence: Sequence) -> None:
        """Learn a length."""
        length = sampled_tokens(sequence)
        insort(self._all, length)
        insort(self._by_class.setdefault(sequence.prompt_tokens.bit_length(), []), length)

    def _guess(self, sequence: Sequence) -> int:
        sampled = sampled_tokens(sequence)
        lengths = self._by_class.get(sequence.prompt_tokens.bit_length(), [])
        if len(lengths) < MIN_ANSWERS:
            lengths = self._all
        if len(lengths) < MIN_ANSWERS:
            return max(self._config.predictor.prior, 2 * sampled)
        shorter = bisect_right(lengths, sampled)
        peers = len(lengths) - shorter
        if not peers:
            return 2 * sampled
        return lengths[shorter + math.ceil(self._config.predictor.quantile * peers) - 1]
