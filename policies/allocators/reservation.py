"""How much room a sequence reserves at admission, in tokens.

Three are the PagedAttention paper's (SOSP 2023, section 6.1): its Orca baselines reserve for the
longest possible sequence, for the answer rounded up to a power of two, or for exactly what will be
used. The last two look behind the wall at true lengths, and say so. The fourth asks the run's
length predictor, and may be outgrown.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol

from kvsim.policies.predictor.base import require_prediction
from kvsim.policies.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence


class Reservation(Protocol):
    """Room for one sequence, at least for one token more than it knows.

    ``covers_all``: never less than the sequence will use.
    """

    name: str
    uses_oracle: bool
    covers_all: bool

    def tokens(self, sequence: Sequence) -> int:
        """Slots to reserve."""
        ...


class Max:
    """The model length in total, prompt included."""

    name = "max"
    uses_oracle = False
    covers_all = True

    def __init__(self, context: PolicyContext) -> None:
        self._max_model_len = context.config.max_model_len

    def tokens(self, sequence: Sequence) -> int:
        """The same for all."""
        return self._max_model_len


class Pow2:
    """Prompt, and the true output rounded up to a power of two, never beyond the model length."""

    name = "pow2"
    uses_oracle = True
    covers_all = True

    def __init__(self, context: PolicyContext) -> None:
        assert context.truth is not None, "an oracle needs the true lengths"
        self._max_model_len = context.config.max_model_len
        self._truth = context.truth

    def tokens(self, sequence: Sequence) -> int:
        """``prompt + 2^k`` with the smallest ``2^k >= output``."""
        num_outputs = self._truth.num_outputs(sequence.index)
        tokens = sequence.prompt_tokens + (1 << (num_outputs - 1).bit_length())
        return min(tokens, self._max_model_len)


class Oracle:
    """Exactly the tokens whose KV will be computed (the last token's never is)."""

    name = "oracle"
    uses_oracle = True
    covers_all = True

    def __init__(self, context: PolicyContext) -> None:
        assert context.truth is not None, "an oracle needs the true lengths"
        self._truth = context.truth

    def tokens(self, sequence: Sequence) -> int:
        """All that will be filled."""
        return self._truth.num_slots(sequence.index)


class Predicted:
    """Prompt and predicted output times a margin, never beyond the model length.

    The prediction is asked for again whenever the sequence enters, and when it has outgrown this.
    """

    name = "predicted"
    uses_oracle = False
    covers_all = False

    def __init__(self, context: PolicyContext) -> None:
        self._max_model_len = context.config.max_model_len
        self._margin = context.config.allocator.reservation_margin
        self._predictor = context.predictor
        require_prediction(self._predictor, "allocator.reservation = 'predicted'")

    def tokens(self, sequence: Sequence) -> int:
        """``prompt + margin * prediction``, and room for one token more than it has."""
        outputs = math.ceil(self._margin * self._predictor.output_tokens(sequence))
        tokens = max(sequence.prompt_tokens + outputs, sequence.num_tokens + 1)
        return min(tokens, self._max_model_len)


RESERVATIONS: Final[Registry[Callable[[PolicyContext], Reservation]]] = Registry(
    "reservation", {Max.name: Max, Pow2.name: Pow2, Oracle.name: Oracle, Predicted.name: Predicted}
)
