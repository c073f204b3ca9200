"""The longest output that is allowed: an upper bound, which is never too low."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.predictor.base import conditioned

if TYPE_CHECKING:
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence


class MaxTokens:
    """Predicts the limit of the client, or the room that the model leaves."""

    name = "max_tokens"
    uses_oracle = False
    predicts = True

    def __init__(self, context: PolicyContext) -> None:
        self._max_model_len = context.config.max_model_len

    def output_tokens(self, sequence: Sequence) -> int:
        """Return the same number until the end."""
        return conditioned(sequence.max_tokens, sequence, self._max_model_len)

    def finished(self, sequence: Sequence) -> None:
        """Learn nothing."""
