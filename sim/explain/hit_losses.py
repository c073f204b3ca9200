"""Where prefix-cache hits were lost: each prompt token is a hit, or lost for one reason.

    prompt   |======= hit =======|== lost ==|last|rounding|  never seen before  | ids end |
             0                   H        usable          M                    named      P
             '---- leading run of ids that an earlier request had ----'

Earlier means admitted before, in the run that is explained; what such a request generates counts
as seen, too (whoever comes too soon for it lost the hit as *not computed yet*).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.trace.prefix import PrefixPaths

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvsim.traces.trace.trace import Trace

PARTS: Final = (
    "hit",
    "cache off",
    "eviction policy",
    "capacity",
    "not computed yet",
    "evicted or not computed yet",
    "block rounding",
    "last token",
    "id granularity",
    "compulsory",
)
"""Parts of the prompt tokens of admitted requests.

hit                found in the cache at the first admission
cache off          could have been found, had the engine a prefix cache
eviction policy    lost to this order of eviction, not to the one that knows the next use (signed)
capacity           lost to that one too, and not in an infinite cache (signed)
not computed yet   lost even in an infinite cache: whoever had it had not computed it by then
evicted or not computed yet
                   the last three together, where the cache has no such order and no such size
block rounding     beyond the last whole block (or page) of what was seen
last token         the last token of a prompt is computed always
id granularity     the ids are too coarse, or end too soon, to tell
compulsory         no earlier request had it
"""


def tokens_seen_before(trace: Trace, order: Sequence[int]) -> NDArray[np.int64]:
    """Leading prompt tokens of each request that an earlier one in ``order`` had, by ids.

    Requests that are not in ``order`` have 0 and show nothing to others.
    """
    seen_tokens = np.zeros(len(trace), dtype=np.int64)
    prefix = trace.prefix
    if prefix is None:
        return seen_tokens
    paths = PrefixPaths(prefix, len(trace), prefix.block_size)
    counts = np.diff(prefix.offsets).tolist()
    seen_upto: dict[int, int] = {}  # of a segment, the depth up to which somebody had it
    for index in order:
        depth, whole = 0, True
        for segment in paths.path(index):
            end = min(paths.end[segment], counts[index])
            if whole:
                depth = min(seen_upto.get(segment, paths.start[segment]), end)
                whole = depth == end
            seen_upto[segment] = max(seen_upto.get(segment, 0), end)
        seen_tokens[index] = min(depth * prefix.block_size, int(trace.prompt_tokens[index]))
    return seen_tokens


def hit_parts(
    trace: Trace,
    order: Sequence[int],
    hits: NDArray[np.int64],
    *,
    block_size: int,
    caching: bool,
    best: NDArray[np.int64] | None = None,
    infinite: NDArray[np.int64] | None = None,
) -> dict[str, int]:
    """Prompt tokens of the requests in ``order`` by part; they add up to all of their tokens.

    Parameters
    ----------
    hits, best, infinite : int64, shape (n,)
        Hit tokens at the first admission: of the run, of one that evicts the furthest next use,
        of one with an infinite cache. The last two are ``None`` where no such run can be made.
    caching
        Whether the engine shares prefixes at all.
    block_size
        Tokens of a KV block or page: hits are whole ones.
    """
    chosen = np.asarray(order, dtype=np.int64)
    prompts = trace.prompt_tokens[chosen]
    all_seen = tokens_seen_before(trace, order)
    seen = all_seen[chosen]
    findable = np.minimum(seen, prompts - 1)
    usable = findable // block_size * block_size
    untold = _untold_tokens(trace, all_seen, block_size)[chosen]
    found = hits[chosen]
    assert (found <= usable).all(), "a hit of what nobody had before"
    parts = dict.fromkeys(PARTS, 0)
    if best is None or infinite is None:
        part = "evicted or not computed yet" if caching else "cache off"
        parts[part] = int((usable - found).sum())
    else:
        parts["eviction policy"] = int((best[chosen] - found).sum())
        parts["capacity"] = int((infinite[chosen] - best[chosen]).sum())
        parts["not computed yet"] = int((usable - infinite[chosen]).sum())
    parts["hit"] = int(found.sum())
    parts["block rounding"] = int((findable - usable).sum())
    parts["last token"] = int((seen - findable).sum())
    parts["id granularity"] = int(untold.sum())
    parts["compulsory"] = int((prompts - seen - untold).sum())
    return parts


def _untold_tokens(trace: Trace, seen: NDArray[np.int64], block_size: int) -> NDArray[np.int64]:
    """Tokens after the seen ones of which ids cannot say whether somebody had them.

    Behind the last id nothing is told; where ids are coarser than blocks, a part of the first
    unseen id may have been seen.
    """
    if trace.prefix is None:
        return trace.prompt_tokens
    id_tokens = trace.prefix.block_size
    named = np.minimum(np.diff(trace.prefix.offsets) * id_tokens, trace.prompt_tokens)
    first_unseen = id_tokens if id_tokens > block_size else 0
    untold = np.where(seen == named, trace.prompt_tokens - named, first_unseen)
    at_most: NDArray[np.int64] = np.minimum(untold, trace.prompt_tokens - seen)
    return at_most
