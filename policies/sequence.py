"""A request as policies see it: without its output length.

The engine keeps the output length to itself. A policy sees the prompt, ``max_tokens`` and the
number of tokens sampled so far. It gets block keys for sampled tokens only, because the keys of
later tokens would reveal the output length.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kvsim.policies.token_run import TokenRun

if TYPE_CHECKING:
    from collections.abc import Hashable
    from collections.abc import Sequence as SequenceOf


class Sequence:
    """One request in the engine: one sequence, or ``width`` sequences of equal length.

    Attributes
    ----------
    num_tokens : int
        Prompt tokens and sampled tokens, of each sequence.
    num_computed_tokens : int
        Leading tokens whose KV is in memory, or will be once the scheduled steps have run.
    num_output_placeholders : int
        Tokens that steps in flight will sample (async scheduling).
    in_flight : int
        Tokens that steps in flight compute.
    reserved : int
        Token slots of its reservation, where the allocator makes reservations. The value stays
        after the reservation is freed.
    user : str
        The trace's user, else its session, else the name of the request.
    beams : bool
        Whether the sequences are beams: one beam may replace another.

    ``public_keys`` are pairs ``(name, end)``: leading stretches of tokens that other requests may
    share (see :class:`~kvsim.policies.token_run.TokenRun`). A name is below 0. An end counts tokens
    and is a multiple of the block size. Tokens after the last stretch are private to the request.
    """

    __slots__ = (
        "_ends",
        "_names",
        "aborted",
        "arrival_ps",
        "beams",
        "in_flight",
        "index",
        "junction_blocks",
        "last_block_ps",
        "last_token_preemption_count",
        "last_token_ps",
        "max_tokens",
        "most_computed",
        "name",
        "num_computed_tokens",
        "num_output_placeholders",
        "num_preemptions",
        "num_tokens",
        "priority",
        "prompt_tokens",
        "reserved",
        "user",
        "width",
    )

    def __init__(
        self,
        index: int,
        name: str,
        arrival_ps: int,
        prompt_tokens: int,
        max_tokens: int,
        priority: int,
        public_keys: SequenceOf[tuple[int, int]],
        user: str = "",
        width: int = 1,
        *,
        beams: bool = False,
    ) -> None:
        self.index = index
        self.name = name
        self.arrival_ps = arrival_ps
        self.prompt_tokens = prompt_tokens
        self.max_tokens = max_tokens
        self.priority = priority
        self.num_tokens = prompt_tokens
        self.num_computed_tokens = 0
        self.num_output_placeholders = 0
        self.in_flight = 0
        self.num_preemptions = 0
        self.most_computed = 0
        self.aborted = False
        self.last_block_ps = 0
        self.last_token_ps = -1
        self.last_token_preemption_count = -1
        self.junction_blocks = 0
        self.reserved = 0
        self.user = user
        self.width = width
        self.beams = beams
        self._names = (*(name for name, _ in public_keys), index)
        self._ends = tuple(end for _, end in public_keys)

    def num_scheduled(self, tokens: int) -> int:
        """Return the tokens of a step: each sequence counts, but a prompt counts only once."""
        return tokens if self.num_computed_tokens < self.prompt_tokens else tokens * self.width

    def block_key(self, block: int, block_size: int) -> Hashable:
        """Return the key of full block ``block``; its tokens must be known."""
        assert (block + 1) * block_size <= self.num_tokens, (
            "keys are hidden beyond the known tokens"
        )
        return (self._names[bisect_right(self._ends, block * block_size)], block)

    def run(self, num_tokens: int) -> TokenRun:
        """Return the first tokens as an index of token runs sees them; they must be known.

        The run contains no information about later stretches.
        """
        assert num_tokens <= self.num_tokens, "tokens are hidden beyond the known ones"
        last = bisect_right(self._ends, num_tokens - 1)
        return TokenRun(self._names[: last + 1], (*self._ends[:last], num_tokens), 0, num_tokens)

    def __repr__(self) -> str:
        counters = f"num_tokens={self.num_tokens} num_computed_tokens={self.num_computed_tokens}"
        return f"<{self.name} {counters}>"
