"""Blocks that running sequences may still take, for engines that never preempt.

Such an engine admits a sequence only if the spare blocks cover its longest end and the longest ends
of all running sequences. Blocks are allocated as tokens come. So the admission test alone
guarantees that running sequences find their blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvsim.policies.allocators.base import Hit
    from kvsim.policies.batching.base import SchedulerState
    from kvsim.policies.sequence import Sequence


def longest(state: SchedulerState, sequence: Sequence) -> int:
    """Return the tokens of a sequence with the longest output that client and model allow."""
    return min(sequence.prompt_tokens + sequence.max_tokens, state.config.max_model_len)


def unpromised_blocks(state: SchedulerState, unwritten: int = 0) -> int:
    """Return the spare blocks that no running sequence may still take; O(running).

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
    """Whether a waiting sequence can run to its longest end without blocks promised to others."""
    tokens = longest(state, sequence) - unwritten
    wanted = state.allocator.num_wanted(sequence, hit, tokens)
    return wanted <= unpromised_blocks(state, unwritten)
