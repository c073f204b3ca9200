"""Who looks a block up next, in the order of the trace: the future, for policies that declare it.

A request looks up the full blocks of its prompt without the last token; those that no id covers
are private and never looked up by others. Requests that can never run are left out.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kvsim.sim.engine.requests import Requests


class NextUse:
    """See :class:`~kvsim.policies.context.Future`; built when it is asked for the first time."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    def next_use(self, key: Hashable, after: int) -> int | None:
        """First request behind ``after`` that looks up ``(KV group, key)``; mostly O(log n).

        Requests that leave the block's segment of the prefix tree above it are passed over.
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
        """Users of each segment in order, and the depth that each one's look-up ends at."""
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
