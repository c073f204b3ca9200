"""Which sequence is preempted when a running one needs memory: pure functions of the running list.

``running`` is in order of admission; swapped-in sequences come last. Of equal sequences the last
admitted is chosen, unless the function says otherwise. The victim may be the sequence that needs
memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Sequence as SequenceOf

    from kvsim.policies.batching.base import SchedulerState
    from kvsim.policies.sequence import Sequence

    Victim = Callable[[SequenceOf[Sequence], SchedulerState], Sequence]


def by_queue(running: SequenceOf[Sequence], state: SchedulerState) -> Sequence:
    """By queue order (vLLM): ``lowest-priority`` under ``priority``, else ``last``."""
    choose = lowest_priority if state.config.queue.policy == "priority" else last
    return choose(running, state)


def last(running: SequenceOf[Sequence], _state: SchedulerState) -> Sequence:
    """The one admitted last (vLLM, FCFS)."""
    return running[-1]


def first(running: SequenceOf[Sequence], _state: SchedulerState) -> Sequence:
    """The one admitted first: it holds most, and has run longest."""
    return running[0]


def least_progress(running: SequenceOf[Sequence], _state: SchedulerState) -> Sequence:
    """Fewest tokens generated, then fewest computed: the least work is lost."""
    return min(
        reversed(running),
        key=lambda sequence: (
            sequence.num_tokens - sequence.prompt_tokens,
            sequence.num_computed_tokens,
        ),
    )


def most_blocks(running: SequenceOf[Sequence], state: SchedulerState) -> Sequence:
    """Most blocks (or slots) held, shared ones included; O(all blocks held)."""
    return max(reversed(running), key=state.allocator.num_held)


def lowest_priority(running: SequenceOf[Sequence], _state: SchedulerState) -> Sequence:
    """Largest (priority, arrival); of equal ones the first in the running list (vLLM, priority)."""
    return max(running, key=lambda sequence: (sequence.priority, sequence.arrival_ps))


def most_remaining(running: SequenceOf[Sequence], state: SchedulerState) -> Sequence:
    """Most output tokens left, by the predictor; refuses the predictor ``none``."""
    predict = state.context.predictor.output_tokens
    return max(
        reversed(running),
        key=lambda sequence: predict(sequence) - (sequence.num_tokens - sequence.prompt_tokens),
    )
