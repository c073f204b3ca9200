"""Blocks that running sequences may still take, for engines that never preempt.

Such an engine lets a sequence in when the spare blocks cover what it may take at most, beside what
those that run may still take at most. Blocks are handed out as tokens come, so the promise is kept
by the admission test alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvsim.policies.allocators.base import Hit
    from kvsim.policies.batching.base import SchedulerState
    from kvsim.policies.sequence import Sequence


def longest(state: SchedulerState, sequence: Sequence) -> int:
    """Tokens of a sequence whose answer is as long as its client, or the model, allows."""
    return min(sequence.prompt_tokens + sequence.max_tokens, state.config.max_model_len)


def unpromised_blocks(state: SchedulerState, unwritten: int = 0) -> int:
    """Spare blocks that nobody who runs may still take; O(running).

    ``unwritten``: tokens at the end of the longest sequence whose KV the engine does not count.
    """
    allocator = state.allocator
    return allocator.num_spare - sum(
        allocator.num_lacking(sequence, longest(state, sequence) - unwritten)
        for sequence in state.running
    )


def fits_to_its_end(
    state: SchedulerState, sequence: Sequence, hit: Hit, unwritten: int = 0
) -> bool:
    """Whether a waiting sequence can run to its longest end without anybody's blocks."""
    tokens = longest(state, sequence) - unwritten
    wanted = state.allocator.num_wanted(sequence, hit, tokens)
    return wanted <= unpromised_blocks(state, unwritten)
