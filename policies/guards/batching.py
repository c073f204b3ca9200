"""Rules of batching: what a step may hold, and that nobody is lost between queue and batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.guards.guard import Guard

if TYPE_CHECKING:
    from kvsim.policies.batching.base import Batching, ScheduledStep, SchedulerState
    from kvsim.policies.context import PolicyContext


class GuardedBatching(Guard["Batching"]):
    """A batching policy whose steps are looked through."""

    kind = "batching"

    def __init__(self, name: str, policy: Batching, context: PolicyContext) -> None:
        super().__init__(name, policy, context)
        self.name = name

    def compose(self, state: SchedulerState) -> ScheduledStep:
        """One scheduling call, checked; O(running)."""
        num_before = _count(state)
        step: ScheduledStep = self.call("compose", state)
        num_after = _count(state) + len(step.dropped)
        self.require(
            num_after == num_before,
            f"of {num_before} sequences that ran or waited, {num_after} are left after compose",
        )
        max_num_seqs = state.config.max_num_seqs
        members = [*state.running, *state.ended]
        self.require(
            len(members) <= max_num_seqs,
            f"{len(members)} sequences run, max_num_seqs is {max_num_seqs}",
        )
        running = {sequence.index for sequence in state.running}
        self.require(len(running) == len(state.running), "a sequence runs twice")
        owners = state.allocator.owners()
        entitled = {sequence.index for sequence in members}
        self.require(
            owners == entitled,
            f"sequences {sorted(owners ^ entitled)} run without memory, or own some and do not run",
        )
        self._check_items(step, running)
        return step

    def _check_items(self, step: ScheduledStep, running: set[int]) -> None:
        hits = {one.sequence.index: one.hit_tokens for one in step.admitted}
        served: set[int] = set()
        for sequence, num_tokens, past in step.items:
            index = sequence.index
            self.require(index in running, f"{sequence} gets tokens and does not run")
            self.require(index not in served, f"{sequence} gets tokens twice in one step")
            served.add(index)
            computed = hits.get(index, sequence.num_computed_tokens)
            self.require(past == computed, f"{sequence} goes on at {past}, not {computed}")
            most = sequence.num_tokens + sequence.num_output_placeholders - computed
            self.require(
                1 <= num_tokens <= most, f"{sequence} gets {num_tokens} tokens of {most} it has"
            )


def _count(state: SchedulerState) -> int:
    return len(state.running) + state.num_waiting
