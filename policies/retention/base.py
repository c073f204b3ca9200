"""The contract of retention: which tokens one KV group keeps of a sequence.

    position   0 1 2 3 4 5 6 7 8 9 | 10       computed = 10: position 10 is computed next
    kept       . . x x . . . x x x            and attends to [2, 4) and [7, 10)

Block tables drop the tokens outside the kept ranges. A block is freed when none of its tokens is
kept. A dropped token in a block that stays is a *hole* in the block.
"""

from __future__ import annotations

from typing import Protocol


class Retention(Protocol):
    """A pure function from computed tokens to kept ranges; dropped tokens never come back.

    Attributes
    ----------
    size : int or None
        Most tokens that a head attends to, including the one being computed; ``None``: all.
    window : int or None
        ``size`` if the model itself attends to no more tokens. Results are then as exact as if
        nothing had been dropped. All blocks get keys, and a hit needs only the kept tokens.
        ``None`` if a policy chooses what to drop. A sequence that has dropped a token then
        publishes no more blocks.
    waits_for_prompt : bool
        Nothing is dropped before all tokens known at an admission are computed.
    num_heads : int
        Number of heads that each choose ``size`` tokens; a slot is kept while any head keeps its
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
        """Return the most blocks of a sequence with ``in_flight`` tokens in steps not yet ended.

        ``None``: as many as its tokens fill.
        """
        ...

    def forget(self, index: int) -> None:
        """Note that sequence ``index`` holds no memory any more."""
        ...
