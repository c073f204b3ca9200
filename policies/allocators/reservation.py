"""How much room a sequence reserves at admission, in tokens.

Three rules are from the PagedAttention paper (SOSP 2023, section 6.1). Its Orca baselines reserve
the longest possible sequence, the output rounded up to a power of two, or exactly what will be
used. The last two read true lengths, and declare it. The fourth rule uses the run's length
predictor, and its reservations may be too small.
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
    """Room for one sequence, at least for one token more than it has.

    ``covers_all``: the reservation is never less than the sequence will use.
    """

    name: str
    uses_oracle: bool
    covers_all: bool

    def tokens(self, sequence: Sequence) -> int:
        """Return the slots to reserve."""
        ...


class Max:
    """The model length, including the prompt."""

    name = "max"
    uses_oracle = False
    covers_all = True

    def __init__(self, context: PolicyContext) -> None:
        self._max_model_len = context.config.max_model_len

    def tokens(self, sequence: Sequence) -> int:
        """Return the same length for all."""
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
        """Return ``prompt + 2^k`` with the smallest ``2^k >= output``."""
        num_outputs = self._truth.num_outputs(sequence.index)
        tokens = sequence.prompt_tokens + (1 << (num_outputs - 1).bit_length())
        return min(tokens, self._max_model_len)


class Oracle:
    """Exactly the tokens whose KV will be computed (the KV of the last token never is)."""

    name = "oracle"
    uses_oracle = True
    covers_all = True

    def __init__(self, context: PolicyContext) -> None:
        assert context.truth is not None, "an oracle needs the true lengths"
        self._truth = context.truth

    def tokens(self, sequence: Sequence) -> int:
        """Return the number of slots that will be filled."""
        return self._truth.num_slots(sequence.index)


class Predicted:
    """Prompt and predicted output times a margin, never beyond the model length.

    The prediction is made at each admission, and again when a reservation is too small.
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
        """Return ``prompt + margin * prediction``, at least one token more than it has."""
        outputs = math.ceil(self._margin * self._predictor.output_tokens(sequence))
        tokens = max(sequence.prompt_tokens + outputs, sequence.num_tokens + 1)
        return min(tokens, self._max_model_len)


RESERVATIONS: Final[Registry[Callable[[PolicyContext], Reservation]]] = Registry(
    "reservation", {Max.name: Max, Pow2.name: Pow2, Oracle.name: Oracle, Predicted.name: Predicted}
)
