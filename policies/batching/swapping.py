"""Preempt victims and swap them in again; several batching policies share this file.

Mirrors vLLM 0.8.5's engine v0 (``Scheduler._preempt``, ``_schedule_swapped``). The sequence that
was swapped out first is swapped in first, and only that one is tried. It runs in the same step,
after all sequences that already run. A step that preempted swaps nothing in. While a sequence is on
the host, no new request is admitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from kvsim.policies.batching.base import Item, Preemption, SwapIn

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.allocators.base import Allocator
    from kvsim.policies.batching.base import ScheduledStep, SchedulerState
    from kvsim.policies.sequence import Sequence

    class SwappingAllocator(Allocator, Protocol):
        """Block tables that can be swapped out; scenarios refuse swapping with other allocators."""

        def swap_out(self, sequence: Sequence) -> None:
            """Give up all blocks, as ``release`` does, but keep the shape of the tables."""
            ...

        def swap_in_refusal(self, sequence: Sequence, new_tokens: int, *, idle: bool) -> str | None:
            """Return why it cannot be swapped in now, with room for ``new_tokens`` more."""
            ...

        def swap_in(self, sequence: Sequence, new_tokens: int) -> None:
            """Give the sequence new blocks, and room for ``new_tokens`` more tokens."""
            ...

        def forget_swapped(self, sequence: Sequence) -> None:
            """Forget a swapped sequence, which will not be swapped in."""
            ...


def preempt(state: SchedulerState, step: ScheduledStep, victim: Sequence) -> bool:
    """Take a victim's blocks: copy them to the host if the mode says so, else free them.

    The victim has already left ``running``. Return True if it was swapped out; only then it keeps
    its computed tokens. Return False if it has to wait again. A group is preempted as a whole.

    Raises
    ------
    ValueError
        If the host has no room for a group of several sequences that differ already. Such a
        group cannot be recomputed (vLLM's engine v0 also ends here).
    """
    mode = state.mode
    num_blocks = state.allocator.num_held(victim)
    swapped = mode.swaps(victim, num_blocks)
    if not swapped and victim.width > 1 and victim.num_tokens > victim.prompt_tokens:
        raise ValueError(
            f"host memory has no room for the {num_blocks:,} blocks of {victim.name}. Its "
            f"{victim.width} sequences cannot be computed again: raise preemption.swap_space "
            f"(now {mode.host.num_blocks:,} blocks, {mode.host.num_used:,} taken)"
        )
    step.preempted.append(
        Preemption(victim, victim.num_computed_tokens, num_blocks if swapped else 0)
    )
    victim.num_output_placeholders = victim.in_flight = 0
    victim.num_preemptions += 1
    if swapped:
        _swapping(state).swap_out(victim)
        mode.host.put(victim.index, num_blocks)
        state.swapped.append(victim)
    else:
        state.allocator.release(victim)
        victim.num_computed_tokens = 0
    return swapped


def swap_in_all(
    state: SchedulerState,
    step: ScheduledStep,
    chunk_of: Callable[[Sequence], int],
    budget: int,
    *,
    idle_too: bool = False,
) -> int:
    """Swap sequences in while ``max_num_seqs``, token budget and blocks allow it.

    ``chunk_of``: tokens that a sequence can use in this step. ``idle_too``: the watermark also
    counts when no sequence runs. Returns the remaining budget. If a sequence stays on the host,
    ``step.waits_for`` has the reason.
    """
    allocator = _swapping(state)
    while state.swapped:
        sequence = state.swapped[0]
        if state.num_running_seqs + sequence.width > state.config.max_num_seqs:
            step.waits_for = "max_num_seqs"
            break
        tokens = min(chunk_of(sequence), budget)
        if budget <= 0 or sequence.num_scheduled(tokens) > budget:
            step.waits_for = "token_budget"
            break
        idle = not state.running and not idle_too
        step.waits_for = allocator.swap_in_refusal(sequence, tokens, idle=idle)
        if step.waits_for is not None:
            break
        hit = allocator.find_hit(sequence)
        state.swapped.popleft()
        num_blocks = state.mode.host.take(sequence.index)
        allocator.swap_in(sequence, tokens)
        state.running.append(sequence)
        step.swapped_in.append(SwapIn(sequence, num_blocks, hit.tokens))
        step.items.append(Item(sequence, tokens, sequence.num_computed_tokens))
        budget -= sequence.num_scheduled(tokens)
    return budget


def forget_swapped(state: SchedulerState, sequence: Sequence) -> None:
    """Free the host blocks of a sequence that will not be swapped in."""
    state.mode.host.take(sequence.index)
    _swapping(state).forget_swapped(sequence)


def _swapping(state: SchedulerState) -> SwappingAllocator:
    return cast("SwappingAllocator", state.allocator)
