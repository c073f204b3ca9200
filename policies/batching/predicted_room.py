"""Admission that keeps room for the predicted remaining output of running requests.

SGLang admits a request only if its prompt and output fit into the available tokens. These are the
free and evictable tokens less the tokens that running requests may still generate (``PrefillAdder``
in managers/schedule_policy.py: ``max_new_tokens`` left x an adaptive ``new_token_ratio``). Here a
predicted length replaces limit and ratio. With the predictor ``max-tokens`` no request is ever
preempted. Lower predictions admit more requests.

The rule counts whole blocks of one KV group. A sequence will hold its prompt and its output without
the last token. Its remaining need is this amount, rounded up to blocks, less the blocks that it
holds. The candidate's hit also counts as needed, because it may be in free blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvsim.policies.batching.base import SchedulerState
    from kvsim.policies.sequence import Sequence


def lacks_predicted_room(state: SchedulerState, sequence: Sequence) -> bool:
    """Whether the predicted needs of all sequences keep a waiting one out; O(running).

    If no sequence runs, no room is kept, and the waiting one is admitted.
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
    """Return the slots of the whole blocks that a sequence will hold at its end."""
    output_tokens = state.context.predictor.output_tokens(sequence)
    block_size = state.config.block_size
    return -(-(sequence.prompt_tokens + output_tokens - 1) // block_size) * block_size
