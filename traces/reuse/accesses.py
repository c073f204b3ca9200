"""The blocks that requests look up and leave behind, as flat arrays.

Request ``i`` touches ``blocks[offsets[i]:offsets[i + 1]]``, its prompt from the head on. Of these
it looks up the first ``num_lookups[i]``; what follows are blocks of its answer, which are only
left behind::

    ids cover the prompt      | b0 | b1 | b2 |         3 look-ups, the last weighs what remains
    ids cover the answer too  | b0 | b1 | b2   a | a   2 look-ups: b2 is known when answered only
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Accesses:
    """All block touches of a trace, in file order.

    Attributes
    ----------
    offsets
        int64, shape ``(n + 1,)``.
    blocks
        int64, shape ``(offsets[-1],)``; names from 0 to ``num_blocks - 1``, perhaps with gaps.
    num_lookups
        int64, shape ``(n,)``: leading blocks that a request looks up.
    prompt_tokens
        int64, shape ``(n,)``.
    block_tokens
        Tokens of a whole block.
    """

    offsets: NDArray[np.int64]
    blocks: NDArray[np.int64]
    num_blocks: int
    num_lookups: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    block_tokens: int

    @classmethod
    def of(cls, trace: Trace, *, chained: bool) -> Accesses:
        """Take the blocks of ``trace``; :class:`TraceError` where it has no ids.

        ``chained``: a block is named by the whole chain of ids up to it (a node of the prefix
        tree), else by its id alone. O(ids log ids).
        """
        prefix = trace.prefix
        if prefix is None or not len(prefix.ids):
            raise TraceError(
                f"trace {trace.name} has no prefix ids, so which prompts begin alike is not known; "
                "reuse needs a format with ids, such as mooncake or kvsim's own with prefix_ids"
            )
        blocks, num_blocks = _dense(prefix.ids)
        if chained and not _implies_chain(prefix.offsets, blocks, num_blocks):
            blocks, num_blocks = _chain(prefix.offsets, blocks)
        num_lookups = np.diff(prefix.offsets)
        if prefix.covers_output:
            num_lookups = np.minimum(num_lookups, trace.prompt_tokens // prefix.block_size)
        return cls(
            prefix.offsets,
            blocks,
            num_blocks,
            num_lookups,
            trace.prompt_tokens,
            prefix.block_size,
        )

    def __len__(self) -> int:
        return len(self.num_lookups)

    @property
    def longest_request(self) -> int:
        """Blocks of the longest request, its answer's included where they are known."""
        return int(np.diff(self.offsets).max())

    def depths(self) -> NDArray[np.int64]:
        """Place of each block in its request, from 0."""
        lengths = np.diff(self.offsets)
        return np.arange(len(self.blocks), dtype=np.int64) - np.repeat(self.offsets[:-1], lengths)

    def requests(self) -> NDArray[np.int64]:
        """Request of each block."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.offsets))

    def is_lookup(self) -> NDArray[np.bool_]:
        """Whether each block is looked up."""
        return self.depths() < np.repeat(self.num_lookups, np.diff(self.offsets))

    def tokens(self) -> NDArray[np.int64]:
        """Prompt tokens that each block holds; less than a whole block's at a prompt's end."""
        left = np.repeat(self.prompt_tokens, np.diff(self.offsets))
        left -= self.depths() * self.block_tokens
        return np.clip(left, 0, self.block_tokens)


def _dense(ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Give ids numbers from 0 on; ids that are such numbers already, more or less, stay."""
    most = int(ids.max())
    if int(ids.min()) >= 0 and most < 2 * len(ids):
        return ids, most + 1
    names, blocks = np.unique(ids, return_inverse=True)
    return blocks.reshape(-1).astype(np.int64), len(names)


def _implies_chain(offsets: NDArray[np.int64], blocks: NDArray[np.int64], num_blocks: int) -> bool:
    """Tell whether each id always follows the same id, so that it says all before it."""
    before = np.empty_like(blocks)
    before[1:] = blocks[:-1]
    starts = offsets[:-1]
    before[starts[starts < offsets[1:]]] = -1
    first = np.empty(num_blocks, dtype=np.int64)
    first[blocks] = before
    return bool((first[blocks] == before).all())


def _chain(offsets: NDArray[np.int64], blocks: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Give distinct chains numbers from 0 on; one dictionary look-up a block."""
    nodes: dict[tuple[int, int], int] = {}
    named = []
    bounds, flat = offsets.tolist(), blocks.tolist()
    for start, end in pairwise(bounds):
        node = -1
        for block in flat[start:end]:
            node = nodes.setdefault((node, block), len(nodes))
            named.append(node)
    return np.array(named, dtype=np.int64), len(nodes)
