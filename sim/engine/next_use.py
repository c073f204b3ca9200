"""The next lookup of a block in trace order: the future, for policies that declare oracle use.

A request looks up the full blocks of its prompt without the last token. Blocks without an id are
private, and other requests never look them up. Requests that can never run are left out.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kvsim.sim.engine.requests import Requests


class NextUse:
    """See :class:`~kvsim.policies.context.Future`; built at the first call."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def next_use(self, key: Hashable, after: int) -> int | None:
        """Return the first request after ``after`` that looks up ``(KV group, key)``.

        Mostly O(log n). Requests that leave the prefix tree above the block's segment are skipped.
        """
        segment, depth = cast("tuple[int, tuple[int, int]]", key)[1]
        if segment >= 0:  # a private block
            return None
        users, leaves = self._uses.get(-1 - segment, ([], []))
        for place in range(bisect_right(users, after), len(users)):
            if leaves[place] > depth:
                return users[place]
        return None

    @cached_property
    def _uses(self) -> dict[int, tuple[list[int], list[int]]]:
        """Return the users of each segment in order, and the depth at which each lookup ends."""
        requests, uses = self._requests, dict[int, tuple[list[int], list[int]]]()
        paths = requests.paths
        for index in range(len(requests)):
            if requests.refused[index]:
                continue
            longest = (requests.prompt_tokens[index] - 1) // paths.block_size
            end = min(longest, requests.num_covered(index))
            for segment in paths.path(index):
                if paths.start[segment] >= end:
                    break
                users, leaves = uses.setdefault(segment, ([], []))
                users.append(index)
                leaves.append(end)
        return uses
