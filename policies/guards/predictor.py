"""Rules of length predictors: a whole number above the number of sampled tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.guards.guard import Guard

if TYPE_CHECKING:
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.predictor.base import LengthPredictor
    from kvsim.policies.sequence import Sequence


class GuardedPredictor(Guard["LengthPredictor"]):
    """A plug-in predictor; each of its predictions is checked."""

    kind = "predictor"

    def __init__(self, name: str, policy: LengthPredictor, context: PolicyContext) -> None:
        super().__init__(name, policy, context)
        self.name = name
        self.uses_oracle = bool(getattr(policy, "uses_oracle", False))
        self.predicts = bool(getattr(policy, "predicts", True))

    def output_tokens(self, sequence: Sequence) -> int:
        """Return the predicted output length in total."""
        guess = self.call("output_tokens", sequence)
        sampled = sequence.num_tokens - sequence.prompt_tokens
        if not isinstance(guess, int) or guess <= sampled:
            raise self.broken(
                f"output_tokens gave {guess!r} for {sequence}, which has {sampled} already; "
                "expected a larger whole number"
            )
        return guess

    def finished(self, sequence: Sequence) -> None:
        """Note that a request finished."""
        self.call("finished", sequence)
