"""The contract of length predictors: predictions of output lengths that policies cannot see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kvsim.policies.sequence import Sequence


class LengthPredictor(Protocol):
    """Predicts output lengths.

    ``uses_oracle``: predictions use true lengths. ``predicts`` is false only for ``none``. Policies
    that need a prediction refuse ``none``, and their message names it.
    """

    name: str
    uses_oracle: bool
    predicts: bool

    def output_tokens(self, sequence: Sequence) -> int:
        """Return the predicted output length in total, at least one more than sampled so far."""
        ...

    def finished(self, sequence: Sequence) -> None:
        """Learn from a finished request: ``num_tokens - prompt_tokens`` output tokens."""
        ...


def sampled_tokens(sequence: Sequence) -> int:
    """Return the number of output tokens so far."""
    return sequence.num_tokens - sequence.prompt_tokens


def conditioned(guess: int, sequence: Sequence, max_model_len: int) -> int:
    """Limit a prediction to what client and model allow, and to at least one token more."""
    allowed = min(sequence.max_tokens, max_model_len - sequence.prompt_tokens)
    return max(min(guess, allowed), sampled_tokens(sequence) + 1)


def require_prediction(predictor: LengthPredictor, who: str) -> None:
    """Refuse the predictor ``none`` for a policy that needs predictions.

    Raises
    ------
    ValueError
        With the policy's key and value, ``who``.
    """
    if not predictor.predicts:
        raise ValueError(no_prediction(who, predictor.name))


def no_prediction(who: str, name: str = "none") -> str:
    """Return the message that ``who`` needs predictions and predictor ``name`` has none."""
    return (
        f"{who} needs predicted lengths, but predictor.kind = {name!r} has none; choose "
        "another, such as 'quantile' (learnt from finished outputs)"
    )
