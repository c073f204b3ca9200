"""Nobody guesses: the predictor of engines that do not ask for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvsim.policies.sequence import Sequence


class NoPrediction:
    """Knows nothing, and is never asked."""

    name = "none"
    uses_oracle = False
    predicts = False

    def output_tokens(self, sequence: Sequence) -> int:
        """Raise: who needs a guess refuses this predictor."""
        raise ValueError("predictor.kind = 'none' predicts nothing; choose another predictor")

    def finished(self, sequence: Sequence) -> None:
        """Learn nothing."""
