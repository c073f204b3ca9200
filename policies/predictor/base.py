"""The seam of length predictors: what policies are told about answers that nobody knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kvsim.policies.sequence import Sequence


class LengthPredictor(Protocol):
    """Guesses of output lengths.

    ``uses_oracle``: guesses are made from true lengths. ``predicts`` is false for ``none`` alone:
    policies that need a guess refuse it by name.
    """

    name: str
    uses_oracle: bool
    predicts: bool

    def output_tokens(self, sequence: Sequence) -> int:
        """Tokens that the answer is expected to have in all, at least one more than it has."""
        ...

    def finished(self, sequence: Sequence) -> None:
        """An answer ended; its length, ``known - prompt_tokens``, may be learnt from now on."""
        ...
