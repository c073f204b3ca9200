"""No prediction: the predictor of engines that do not use predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvsim.policies.sequence import Sequence


class NoPrediction:
    """Predicts nothing; policies that need predictions refuse it before the run."""

    name = "none"
    uses_oracle = False
    predicts = False

    def output_tokens(self, sequence: Sequence) -> int:
        """Raise ValueError: this predictor has no predictions."""
        raise ValueError("predictor.kind = 'none' predicts nothing; choose another predictor")

    def finished(self, sequence: Sequence) -> None:
        """Learn nothing."""
