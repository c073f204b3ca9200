"""What a cache that never forgets would serve: the most that any cache of blocks can."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvsim.traces.reuse.accesses import Accesses
    from kvsim.traces.reuse.curve import Counted


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Figures of the infinite cache; a block repeated inside a request is not seen before by it.

    Attributes
    ----------
    blocks_seen_before
        Look-ups of blocks that an earlier request left.
    blocks_in_leading_run, tokens_in_leading_run
        Those of them that lie in the leading run of such blocks, and their tokens.
    requests_with_a_hit, requests_fully_cached
        Requests that hit at least a block, and all their prompt tokens.
    mean_request_token_ratio
        Mean over requests of hit tokens / prompt tokens.
    """

    requests: int
    blocks: int
    prompt_tokens: int
    unique_blocks: int
    blocks_seen_before: int
    blocks_in_leading_run: int
    tokens_in_leading_run: int
    requests_with_a_hit: int
    requests_fully_cached: int
    mean_request_token_ratio: float

    @property
    def block_ratio(self) -> float:
        """Blocks in the leading run / blocks looked up."""
        return self.blocks_in_leading_run / self.blocks if self.blocks else 0.0

    @property
    def token_ratio(self) -> float:
        """Tokens in the leading run / prompt tokens."""
        return self.tokens_in_leading_run / self.prompt_tokens if self.prompt_tokens else 0.0

    def to_dict(self) -> dict[str, float]:
        """All figures by name."""
        figures = asdict(self)
        return figures | {"block_ratio": self.block_ratio, "token_ratio": self.token_ratio}


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


@dataclass(frozen=True, slots=True)
class SessionReuse:
    """What the infinite cache serves of one session's prompts."""

    requests: int
    prompt_tokens: int
    hit_tokens: int

    @property
    def token_ratio(self) -> float:
        """Hit tokens / prompt tokens."""
        return self.hit_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


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
        session: SessionReuse(
            len(requests),
            int(accesses.prompt_tokens[requests].sum()),
            int(hit_tokens[requests].sum()),
        )
        for session, requests in found.items()
    }


def _per_request(accesses: Accesses, values: NDArray[np.int64]) -> NDArray[np.int64]:
    sums = np.concatenate([[0], np.cumsum(values)])
    per_request: NDArray[np.int64] = sums[accesses.offsets[1:]] - sums[accesses.offsets[:-1]]
    return per_request


def _num_distinct(blocks: NDArray[np.int64], num_blocks: int) -> int:
    used = np.zeros(num_blocks, dtype=np.bool_)
    used[blocks] = True
    return int(used.sum())
