"""What policies may know of a request: never its output length.

The engine keeps the truth apart. A policy sees the prompt, what the client allowed, the tokens
sampled so far, and block keys only as far as tokens are known: ids that cover an answer would
leak its length.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from kvsim.policies.token_run import TokenRun

if TYPE_CHECKING:
    from collections.abc import Hashable
    from collections.abc import Sequence as SequenceOf


class Sequence:
    """One request in the engine, of one sequence or of a group of ``width`` equally long ones.

    A group's ``known`` and ``computed`` are those of each of its sequences; ``beams`` tells whether
    these may take each other's place.

    ``known`` = prompt + sampled tokens; ``computed`` = leading tokens that have KV, or are
    promised it by a step already scheduled; ``owed`` = tokens that steps in flight will sample;
    ``in_flight`` = tokens those steps compute; ``reserved`` = slots it owns, or owned last, where
    an allocator reserves them. ``user`` is who asks: the trace's user, else its session, else the
    request's own name.

    ``public_keys``: ``(name, end)`` of leading stretches of tokens that others may have, too (see
    :class:`~kvsim.policies.token_run.TokenRun`), names below 0, ends in tokens and at whole blocks.
    What follows is the request's own.
    """

    __slots__ = (
        "_ends",
        "_names",
        "aborted",
        "arrival_ps",
        "beams",
        "computed",
        "in_flight",
        "index",
        "junction_blocks",
        "known",
        "last_block_ps",
        "last_token_ps",
        "last_token_stint",
        "max_tokens",
        "most_computed",
        "name",
        "num_preemptions",
        "owed",
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
        self.known = prompt_tokens
        self.computed = 0
        self.owed = 0
        self.in_flight = 0
        self.num_preemptions = 0
        self.most_computed = 0
        self.aborted = False
        self.last_block_ps = 0
        self.last_token_ps = -1
        self.last_token_stint = -1
        self.junction_blocks = 0
        self.reserved = 0
        self.user = user
        self.width = width
        self.beams = beams
        self._names = (*(name for name, _ in public_keys), index)
        self._ends = tuple(end for _, end in public_keys)

    def num_scheduled(self, tokens: int) -> int:
        """Tokens of a step in which each sequence computes so many: a prompt's are of all."""
        return tokens if self.computed < self.prompt_tokens else tokens * self.width

    def block_key(self, block: int, block_size: int) -> Hashable:
        """Key of full block ``block``; its tokens must be known."""
        assert (block + 1) * block_size <= self.known, "keys are hidden beyond the known tokens"
        return (self._names[bisect_right(self._ends, block * block_size)], block)

    def run(self, num_tokens: int) -> TokenRun:
        """First tokens as an index of token runs sees them; they must be known.

        The run tells nothing of the stretches beyond.
        """
        assert num_tokens <= self.known, "tokens are hidden beyond the known ones"
        last = bisect_right(self._ends, num_tokens - 1)
        return TokenRun(self._names[: last + 1], (*self._ends[:last], num_tokens), 0, num_tokens)

    def __repr__(self) -> str:
        return f"<{self.name} known={self.known} computed={self.computed} owed={self.owed}>"
