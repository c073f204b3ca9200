"""The seam of retention: what one KV group keeps of a sequence.

    position   0 1 2 3 4 5 6 7 8 9 | 10       computed = 10: position 10 is computed next
    kept       . . x x . . . x x x            and attends to [2, 4) and [7, 10)

Block tables drop what falls out of the kept ranges: a block goes when none of its tokens is kept;
what is dropped of a block that stays is a *hole* in it.
"""

from __future__ import annotations

from typing import Protocol


class Retention(Protocol):
    """A pure function from computed tokens to kept ranges; dropped tokens never come back.

    Attributes
    ----------
    size : int or None
        Most tokens that a head attends to, the one that is being computed included; ``None``: all.
    window : int or None
        ``size`` where the model itself attends to no more. What is kept is then as exact as if
        nothing had been dropped: keys are given to the end, and a hit needs only what is kept.
        Chosen dropping has none: who has dropped a token publishes nothing more.
    waits_for_prompt : bool
        Nothing is dropped before all tokens known at an admission are computed.
    num_heads : int
        Heads that each keep ``size`` tokens of their own; a slot is kept while any head keeps its
        token.
    """

    size: int | None
    window: int | None
    waits_for_prompt: bool
    num_heads: int

    def kept(self, index: int, num_computed_tokens: int) -> tuple[range, ...]:
        """Return the kept positions below ``num_computed_tokens`` as sorted, separate ranges."""
        ...

    def most_blocks(self, block_size: int, in_flight: int, max_model_len: int) -> int | None:
        """Most blocks that a sequence holds with ``in_flight`` tokens in steps not yet ended.

        ``None``: as many as its tokens fill.
        """
        ...

    def forget(self, index: int) -> None:
        """Sequence ``index`` holds nothing any more."""
        ...
