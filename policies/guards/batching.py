"""Rules of batching: the content of a step, and that queue and batch lose no sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.guards.guard import Guard

if TYPE_CHECKING:
    from kvsim.policies.batching.base import Batching, ScheduledStep, SchedulerState
    from kvsim.policies.context import PolicyContext


class GuardedBatching(Guard["Batching"]):
    """A plug-in batching policy; each of its steps is checked."""

    kind = "batching"

    def __init__(self, name: str, policy: Batching, context: PolicyContext) -> None:
        super().__init__(name, policy, context)
        self.name = name

    def compose(self, state: SchedulerState) -> ScheduledStep:
        """Make one scheduling call and check its result; O(running)."""
        num_before = _count(state)
        step: ScheduledStep = self.call("compose", state)
        num_after = _count(state) + len(step.dropped)
        self.require(
            num_after == num_before,
            f"of {num_before} sequences that ran or waited, {num_after} are left after compose",
        )
        max_num_seqs = state.config.max_num_seqs
        holding = [*state.running, *state.ended]
        self.require(
            len(holding) <= max_num_seqs,
            f"{len(holding)} sequences run, max_num_seqs is {max_num_seqs}",
        )
        running = {sequence.index for sequence in state.running}
        self.require(len(running) == len(state.running), "a sequence runs twice")
        owners = state.allocator.owners()
        entitled = {sequence.index for sequence in holding}
        self.require(
            owners == entitled,
            f"sequences {sorted(owners ^ entitled)} run without memory, or hold it and do not run",
        )
        self._check_items(step, running)
        return step

    def _check_items(self, step: ScheduledStep, running: set[int]) -> None:
        hits = {one.sequence.index: one.hit_tokens for one in step.admitted}
        served: set[int] = set()
        for sequence, num_tokens, past in step.items:
            index = sequence.index
            self.require(index in running, f"{sequence} gets tokens but does not run")
            self.require(index not in served, f"{sequence} gets tokens twice in one step")
            served.add(index)
            computed = hits.get(index, sequence.num_computed_tokens)
            self.require(
                past == computed, f"{sequence} starts at token {past}, but has computed {computed}"
            )
            most = sequence.num_tokens + sequence.num_output_placeholders - computed
            self.require(
                1 <= num_tokens <= most,
                f"{sequence} gets {num_tokens} tokens; expected 1 to {most}",
            )


def _count(state: SchedulerState) -> int:
    return len(state.running) + state.num_waiting
