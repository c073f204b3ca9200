"""Which KV blocks are equal: the trace's block ids as a compressed prefix tree.

Keys are chained, so a block is named by its whole prefix. All requests of a trace together form a
tree; it is stored in *segments*, the longest runs of blocks between two branchings, so that a
request is a short path of segments however long its prompt:

    request A   |---- system prompt ----|-- turn 1 --|-- turn 2 --|
    request B   |---- system prompt ----|~~ other ~~~~~~~|
    segments             0                   1     2        3

Blocks that no id covers (generated text of most traces) are private to their request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kvsim.traces.trace.trace import PrefixIds


class PrefixPaths:
    """Paths of all requests in KV blocks of ``block_size`` tokens.

    ``path(i)`` lists the segments of request ``i``; ``start[s]`` is the depth (in blocks from the
    start of the prompt) at which segment ``s`` begins, ``end[s]`` the depth at which it ends.
    ``num_covered(i, tokens)`` says how many of its leading full blocks have a public key.

    Raises
    ------
    ValueError
        Where the KV block size neither divides the ids' block size nor is a multiple of it.
    """

    def __init__(self, prefix: PrefixIds | None, num_requests: int, block_size: int) -> None:
        self.block_size = block_size
        self.start: list[int] = []
        self.end: list[int] = []
        self._parent: list[int] = []
        self._leaf: list[int] = [-1] * num_requests
        self._num_ids: list[int] = [0] * num_requests
        self._id_tokens = 0
        if prefix is None or not len(prefix.ids):
            return
        self._id_tokens = prefix.block_size
        check_block_sizes(prefix.block_size, block_size)
        self._build(prefix)
        self._to_kv_blocks(prefix.block_size)

    def path(self, index: int) -> list[int]:
        """Segments of a request from the root on; O(length of the path)."""
        path: list[int] = []
        segment = self._leaf[index]
        while segment >= 0:
            if self.end[segment] > self.start[segment]:
                path.append(segment)
            segment = self._parent[segment]
        path.reverse()
        return path

    def num_covered(self, index: int, tokens: int) -> int:
        """Leading full blocks of a request of ``tokens`` tokens whose keys come from ids."""
        return min(tokens, self._num_ids[index] * self._id_tokens) // self.block_size

    def _build(self, prefix: PrefixIds) -> None:
        """Insert every request's ids; whole segments are compared as bytes."""
        ids, raw = prefix.ids, prefix.ids.tobytes()
        bounds = prefix.offsets.tolist()
        start, end, parent = self.start, self.end, self._parent
        origin: list[int] = []  # a segment's ids are ids[origin + start : origin + end]
        children: list[dict[int, int]] = []
        roots: dict[int, int] = {}

        def new_segment(of: int, depth: int, upto: int, base: int) -> int:
            parent.append(of)
            start.append(depth)
            end.append(upto)
            origin.append(base)
            children.append({})
            return len(parent) - 1

        for index in range(len(bounds) - 1):
            base, length = bounds[index], bounds[index + 1] - bounds[index]
            self._num_ids[index] = length
            depth, node, table = 0, -1, roots
            while depth < length:
                key = int(ids[base + depth])
                child = table.get(key)
                if child is None:
                    node = table[key] = new_segment(node, depth, length, base)
                    break
                upto = min(end[child], length)
                other = origin[child]
                if (
                    raw[(base + depth) * 8 : (base + upto) * 8]
                    != raw[(other + depth) * 8 : (other + upto) * 8]
                ):
                    differ = ids[base + depth : base + upto] != ids[other + depth : other + upto]
                    upto = depth + int(np.argmax(differ))
                    top = new_segment(parent[child], depth, upto, other)
                    table[key] = top
                    start[child], parent[child] = upto, top
                    children[top][int(ids[other + upto])] = child
                    child = top
                elif upto < end[child]:  # ends inside: the segment stays whole
                    node, depth = child, upto
                    break
                node, depth, table = child, upto, children[child]
            self._leaf[index] = node
        self._settle_leaves()

    def _settle_leaves(self) -> None:
        """A segment split after a request ended in it: the request ends in the upper part."""
        for index, node in enumerate(self._leaf):
            segment = node
            while segment >= 0 and self.start[segment] >= self._num_ids[index]:
                segment = self._parent[segment]
            self._leaf[index] = segment

    def _to_kv_blocks(self, id_tokens: int) -> None:
        if id_tokens >= self.block_size:
            split = id_tokens // self.block_size
            self.start = [depth * split for depth in self.start]
            self.end = [depth * split for depth in self.end]
        else:
            group = self.block_size // id_tokens
            self.start = [depth // group for depth in self.start]
            self.end = [depth // group for depth in self.end]


def check_block_sizes(id_tokens: int, block_size: int) -> None:
    """Refuse KV block sizes for which equality of blocks cannot be read from the ids."""
    if id_tokens % block_size and block_size % id_tokens:
        msg = (
            f"block_size={block_size} does not fit the trace's ids of {id_tokens} tokens: "
            f"take a divisor or a multiple of {id_tokens}"
        )
        raise ValueError(msg)


def shared_prefix_is_lower_bound(id_tokens: int, block_size: int) -> bool:
    """Whether hits are a lower bound because KV blocks are finer than the ids."""
    return block_size < id_tokens
