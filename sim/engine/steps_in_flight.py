"""Steps in flight: each scheduled step is queued behind earlier ones, with its time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kvsim.policies.batching import ScheduledStep, SchedulerState
    from kvsim.policies.batching.base import Item
    from kvsim.policies.options import Retention
    from kvsim.policies.sequence import Sequence
    from kvsim.sim.cost.host_link import HostLink
    from kvsim.sim.cost.step_cost import StepCost, StepTime
    from kvsim.sim.engine.sequence_groups import SequenceGroups
    from kvsim.sim.recording.recorder import Recorder


class StepItem(NamedTuple):
    """One sequence's part in a step; an outdated ``preemption_count`` marks a late token."""

    sequence: Sequence
    num_tokens: int
    past: int
    samples: bool
    decodes: bool
    preemption_count: int


@dataclass(slots=True)
class StepInFlight:
    """A scheduled step: called at ``call_ps``, on the device from ``start_ps`` to ``end_ps``.

    ``time`` has the parts of its duration.
    """

    step: ScheduledStep
    items: list[StepItem]
    call_ps: int
    start_ps: int
    end_ps: int
    time: StepTime


class Results(NamedTuple):
    """The results of a step in flight at its boundary: requests by index, in item order.

    ``finished``: requests that got their last token. ``late``: requests that got a token although
    they had been preempted meanwhile. ``dropped``: requests whose token came after their last one
    and was dropped.
    """

    step_in_flight: StepInFlight
    finished: list[int]
    late: list[int]
    dropped: list[int]


class StepsInFlight:
    """The steps in flight of one engine, oldest first, and the costs besides their computation."""

    def __init__(
        self,
        state: SchedulerState,
        cost: StepCost,
        link: HostLink | None,
        groups: SequenceGroups,
        recorder: Recorder,
    ) -> None:
        self.in_flight: deque[StepInFlight] = deque()
        self._state = state
        config = state.context.config
        self._retention = None if config.keeps_everything else config.retention
        self._kept_sizes = config.kept_sizes
        self.cost = cost
        self._link = link
        self._groups = groups
        self._recorder = recorder
        self._num_copied = 0

    def launch(self, step: ScheduledStep, now_ps: int) -> StepInFlight:
        """Queue a step behind those in flight and count its tokens as computed."""
        items = [self._served(item, now_ps) for item in step.items]
        start_ps = self.in_flight[-1].end_ps if self.in_flight else now_ps
        time = self._time(step, items)
        duration_ps = time.duration_ps
        if self._retention is not None:
            duration_ps += self._note_scores(self._retention, items)
        if self._link is not None:
            duration_ps = self._with_copies(self._link, step, start_ps, duration_ps)
        duration_ps += self._copy_ps() + self._groups.launched(step, now_ps)
        time = time.with_overhead(duration_ps)
        step_in_flight = StepInFlight(step, items, now_ps, start_ps, start_ps + duration_ps, time)
        self.in_flight.append(step_in_flight)
        return step_in_flight

    def _served(self, item: Item, now_ps: int) -> StepItem:
        """Count the tokens that a call gives a sequence as computed."""
        sequence, num_tokens, past = item
        samples = past + num_tokens == sequence.num_tokens + sequence.num_output_placeholders
        decodes = samples and num_tokens == 1 and past >= sequence.prompt_tokens
        if self._state.allocator.takes_memory(sequence, past + num_tokens):
            sequence.last_block_ps = now_ps
        sequence.num_computed_tokens = past + num_tokens
        sequence.in_flight += num_tokens
        sequence.num_output_placeholders += samples
        return StepItem(sequence, num_tokens, past, samples, decodes, sequence.num_preemptions)

    def _time(self, step: ScheduledStep, items: list[StepItem]) -> StepTime:
        """Return the time of the computation, including finished rows of a padded batch."""
        padded_to = step.padded_to
        prefills: list[tuple[int, int]] = []
        contexts: list[int] = []
        for item in items:
            if item.decodes:
                contexts += [max(item.past + 1, padded_to)] * item.sequence.width
            else:
                prefills.append((max(item.num_tokens, padded_to - item.past), item.past))
        contexts += [padded_to] * len(self._state.ended)
        windows = [sum(min(context, window) for context in contexts) for window in self._kept_sizes]
        return self.cost.step(prefills, len(contexts), sum(contexts), windows)

    def _copy_ps(self) -> int:
        """Return the duration of the call's copies within the pool, before its step."""
        relocations = self._state.allocator.relocations
        if relocations is None:
            return 0
        copied = relocations.copied_tokens - self._num_copied
        copy_ps = self.cost.copy_ps(copied)
        self._num_copied += copied
        self._recorder.copy_ps += copy_ps
        self._recorder.relocations = relocations
        return copy_ps

    def _note_scores(self, retention: Retention, items: list[StepItem]) -> int:
        """Record what decodes attend to; return the time to update the scores of kept tokens."""
        seen = [item.past for item in items if item.decodes]
        account = self._recorder.retention
        if account is not None and retention.scores is not None:
            account.decode_contexts.update(seen)
        (budget,) = self._kept_sizes
        return retention.score_ps * sum(min(past + 1, budget) for past in seen)

    def _with_copies(
        self, link: HostLink, step: ScheduledStep, start_ps: int, duration_ps: int
    ) -> int:
        """Duration of a step with the blocks that it moves to the host and back."""
        out = sum(preemption.swapped_blocks for preemption in step.preempted)
        back = sum(swap_in.num_blocks for swap_in in step.swapped_in)
        copying_ps = link.copy_ps(out) + link.copy_ps(back)
        self._recorder.copying(start_ps, start_ps + copying_ps)
        return link.step_ps(duration_ps, copying_ps)
