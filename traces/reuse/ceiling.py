"""What a cache that never forgets would serve: the most that any cache of blocks can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsim.traces.common.part import Part, key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvsim.traces.reuse.accesses import Accesses
    from kvsim.traces.reuse.curve import Counted


class Ceiling(Part):
    """Figures of the infinite cache; a block repeated inside a request is not seen before by it."""

    requests: int = key("1", "that count")
    blocks: int = key("1", "looked up")
    prompt_tokens: int = key("1", "looked up")
    unique_blocks: int = key("1", "looked up")
    blocks_seen_before: int = key("1", "look-ups of blocks that an earlier request left")
    blocks_in_leading_run: int = key("1", "those of them in the leading run of such blocks")
    tokens_in_leading_run: int = key("1", "their tokens")
    requests_with_a_hit: int = key("1", "requests that hit at least a block")
    requests_fully_cached: int = key("1", "requests that hit all their prompt tokens")
    mean_request_token_ratio: float = key("1", "mean over requests of hit tokens / prompt tokens")
    block_ratio: float = key("1", "blocks in the leading run / blocks looked up")
    token_ratio: float = key("1", "tokens in the leading run / prompt tokens")


def ceiling_of(accesses: Accesses, counted: Counted) -> Ceiling:
    """Return the figures of the look-ups that ``counted`` names; O(blocks)."""
    seen = seen_before(accesses)
    leading = leading_run(accesses, seen)
    served = counted.hits(leading)
    prompts = accesses.prompt_tokens[counted.requests]
    hit_tokens = _per_request(accesses, np.where(leading & counted.mask, counted.tokens, 0))
    hit_tokens = hit_tokens[counted.requests]
    return Ceiling(
        requests=len(prompts),
        blocks=counted.all_blocks,
        prompt_tokens=counted.all_tokens,
        unique_blocks=_num_distinct(accesses.blocks[counted.mask], accesses.num_blocks),
        blocks_seen_before=int((seen & counted.mask).sum()),
        blocks_in_leading_run=served.blocks,
        tokens_in_leading_run=served.tokens,
        requests_with_a_hit=int((hit_tokens > 0).sum()),
        requests_fully_cached=int((hit_tokens == prompts).sum()),
        mean_request_token_ratio=float((hit_tokens / prompts).mean()) if len(prompts) else 0.0,
        block_ratio=_ratio(served.blocks, counted.all_blocks),
        token_ratio=_ratio(served.tokens, counted.all_tokens),
    )


def seen_before(accesses: Accesses) -> NDArray[np.bool_]:
    """Tell for each block whether an earlier request touched it."""
    requests = accesses.requests()
    first = np.empty(accesses.num_blocks, dtype=np.int64)
    first[accesses.blocks[::-1]] = requests[::-1]  # of equal indices the last one written stays
    seen: NDArray[np.bool_] = first[accesses.blocks] < requests
    return seen


def leading_run(accesses: Accesses, hit: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Keep, of the blocks that hit, those that no block of their request without a hit precedes."""
    misses = np.cumsum(~hit)
    starts = accesses.offsets[:-1]
    before = np.concatenate([[0], misses])[starts]
    run: NDArray[np.bool_] = hit & (misses == np.repeat(before, np.diff(accesses.offsets)))
    return run


class SessionReuse(Part):
    """What the infinite cache serves of one session's prompts."""

    requests: int = key("1")
    prompt_tokens: int = key("1")
    hit_tokens: int = key("1")
    token_ratio: float = key("1", "hit tokens / prompt tokens")


def ceiling_by_session(
    accesses: Accesses, counted: Counted, sessions: Sequence[str]
) -> dict[str, SessionReuse]:
    """Split the ceiling by session, in the order of their first counted request."""
    leading = leading_run(accesses, seen_before(accesses)) & counted.mask
    hit_tokens = _per_request(accesses, np.where(leading, counted.tokens, 0))
    found: dict[str, list[int]] = {}
    for request in range(len(accesses))[counted.requests]:
        found.setdefault(sessions[request], []).append(request)
    return {
        session: _session_reuse(accesses.prompt_tokens[requests], hit_tokens[requests])
        for session, requests in found.items()
    }


def _session_reuse(prompt_tokens: NDArray[np.int64], hit_tokens: NDArray[np.int64]) -> SessionReuse:
    prompts, hits = int(prompt_tokens.sum()), int(hit_tokens.sum())
    return SessionReuse(
        requests=len(prompt_tokens),
        prompt_tokens=prompts,
        hit_tokens=hits,
        token_ratio=_ratio(hits, prompts),
    )


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _per_request(accesses: Accesses, values: NDArray[np.int64]) -> NDArray[np.int64]:
    sums = np.concatenate([[0], np.cumsum(values)])
    per_request: NDArray[np.int64] = sums[accesses.offsets[1:]] - sums[accesses.offsets[:-1]]
    return per_request


def _num_distinct(blocks: NDArray[np.int64], num_blocks: int) -> int:
    used = np.zeros(num_blocks, dtype=np.bool_)
    used[blocks] = True
    return int(used.sum())
