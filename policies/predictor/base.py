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


def sampled_tokens(sequence: Sequence) -> int:
    """Tokens of the answer so far."""
    return sequence.num_tokens - sequence.prompt_tokens


def conditioned(guess: int, sequence: Sequence, max_model_len: int) -> int:
    """Cut a guess to what client and model allow; an unfinished answer has one more at least."""
    allowed = min(sequence.max_tokens, max_model_len - sequence.prompt_tokens)
    return max(min(guess, allowed), sampled_tokens(sequence) + 1)


def require_prediction(predictor: LengthPredictor, who: str) -> None:
    """Refuse the predictor ``none`` for a policy that needs guesses.

    Raises
    ------
    ValueError
        With the policy's key and value, ``who``.
    """
    if not predictor.predicts:
        raise ValueError(no_prediction(who, predictor.name))


def no_prediction(who: str, name: str = "none") -> str:
    """Say that ``who`` needs guesses that the predictor ``name`` does not make."""
    return (
        f"{who} needs predicted lengths: predictor.kind = {name!r} has none; choose "
        "another, such as 'quantile' (learnt from finished answers)"
    )
