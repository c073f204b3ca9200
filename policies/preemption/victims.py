"""Who gives way when a running sequence lacks memory: pure functions of the running list.

``running`` is in order of admission, those that came back from the host last; of equals the last
admitted is taken unless the function says otherwise. A victim may be the sequence that lacks.
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
    """As the queue is ordered (vLLM): ``lowest-priority`` under ``priority``, else ``last``."""
    choose = lowest_priority if state.config.queue.policy == "priority" else last
    return choose(running, state)


def last(running: SequenceOf[Sequence], _state: SchedulerState) -> Sequence:
    """The one admitted last (vLLM, FCFS)."""
    return running[-1]


def first(running: SequenceOf[Sequence], _state: SchedulerState) -> Sequence:
    """The one admitted first: it holds most, and has been served longest."""
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
    """Largest (priority, arrival); of equals the first in the running list (vLLM, priority)."""
    return max(running, key=lambda sequence: (sequence.priority, sequence.arrival_ps))


def most_remaining(running: SequenceOf[Sequence], state: SchedulerState) -> Sequence:
    """Most tokens still to be generated, as the predictor has it; refuses predictor ``none``."""
    predict = state.context.predictor.output_tokens
    return max(
        reversed(running),
        key=lambda sequence: predict(sequence) - (sequence.num_tokens - sequence.prompt_tokens),
    )
