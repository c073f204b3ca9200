"""Victims leave the device, and those kept in host memory come back: shared by batchings.

Mirrors vLLM 0.8.5's engine v0 (``Scheduler._preempt``, ``_schedule_swapped``, read): first out,
first back; only the first is tried; it runs in the very step that brings it back, behind all that
run already; never in a step that preempted; and while anybody is out nobody new enters.
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
        """Block tables that can leave the device; scenarios refuse to swap with any other."""

        def swap_out(self, sequence: Sequence) -> None:
            """Give up all blocks, as ``release`` does, but keep the shape of the tables."""
            ...

        def swap_in_refusal(self, sequence: Sequence, new_tokens: int, *, idle: bool) -> str | None:
            """Why it cannot come back now, with room for ``new_tokens`` more."""
            ...

        def swap_in(self, sequence: Sequence, new_tokens: int) -> None:
            """Give it blocks of its own again, and room for ``new_tokens`` more."""
            ...

        def forget_swapped(self, sequence: Sequence) -> None:
            """It will not come back."""
            ...


def preempt(state: SchedulerState, step: ScheduledStep, victim: Sequence) -> bool:
    """Take a victim's blocks: to the host where the mode says so, else for good.

    It is out of ``running`` already. Only who was swapped keeps its computed tokens; False: it has
    to wait again. A group goes as a whole.

    Raises
    ------
    ValueError
        Where sequences that have parted find the host full: they cannot be computed again (vLLM's
        engine v0 ends there, too).
    """
    mode = state.mode
    num_blocks = state.allocator.num_held(victim)
    swapped = mode.swaps(victim, num_blocks)
    if not swapped and victim.width > 1 and victim.num_tokens > victim.prompt_tokens:
        raise ValueError(
            f"host memory has no room for the {num_blocks:,} blocks of {victim.name}, whose "
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
    """Let swapped sequences run again as far as max_num_seqs, budget and blocks reach.

    ``chunk_of``: tokens that a sequence can use in this step; ``idle_too``: the watermark counts
    where nobody runs, too. Returns the budget left; who is still out waits for ``step.waits_for``.
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
    """Free what a sequence that will not come back holds on the host."""
    state.mode.host.take(sequence.index)
    _swapping(state).forget_swapped(sequence)


def _swapping(state: SchedulerState) -> SwappingAllocator:
    return cast("SwappingAllocator", state.allocator)
