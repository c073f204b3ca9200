"""Admission that keeps room for what running answers are predicted to need yet.

SGLang admits a request only where the free and evictable tokens, less the tokens that running
requests may still generate, hold its prompt and its answer (``PrefillAdder`` in
managers/schedule_policy.py: ``max_new_tokens`` left x an adaptive ``new_token_ratio``). Here a
predicted length stands in for limit and ratio. With ``max_tokens`` nobody is ever preempted; the
bolder the guess, the more enter.

In whole blocks of one KV group: a sequence will hold its prompt and all of its answer but the last
token. What it will need yet is that, rounded up, less what it holds. The candidate's hit counts as
needed, too: it may sit in free blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvsim.policies.batching.base import SchedulerState
    from kvsim.policies.sequence import Sequence


def lacks_predicted_room(state: SchedulerState, sequence: Sequence) -> bool:
    """Whether a waiting sequence stays out for what it and all that run will need; O(running).

    Where nothing runs there is nobody to keep room for: it enters.
    """
    if not state.config.batching.reserve_predicted_output or not state.running:
        return False
    usage = state.allocator.usage(state.running)
    promised = sum(
        _slots(state, running) - running.num_computed_tokens for running in state.running
    )
    promised -= usage.empty
    return promised + _slots(state, sequence) > usage.blank + usage.cached


def _slots(state: SchedulerState, sequence: Sequence) -> int:
    """Slots of whole blocks that a sequence will hold at its end."""
    output_tokens = state.context.predictor.output_tokens(sequence)
    block_size = state.config.block_size
    return -(-(sequence.prompt_tokens + output_tokens - 1) // block_size) * block_size
