"""What a stepper records: memory by state, and the events of each request."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kvsim.sim.recording.retention_account import RetentionAccount

if TYPE_CHECKING:
    from kvsim.policies.allocators import PagedAllocator
    from kvsim.policies.allocators.base import Usage
    from kvsim.policies.batching import ScheduledStep, SchedulerState
    from kvsim.policies.sequence import Sequence
    from kvsim.sim.engine.steps_in_flight import StepItem
    from kvsim.sim.recording.recorder import Recorder


class MemoryAccount:
    """See the module docstring.

    ``fragmented``: free memory is enough for the head of the queue in sum, but not in one run.
    """

    def __init__(self, state: SchedulerState, recorder: Recorder) -> None:
        self.fragmented = False
        self._config = config = state.context.config
        self._state = state
        self._recorder = recorder
        self._since_ps = 0
        if not config.keeps_everything:
            recorder.retention = RetentionAccount(config)

    def released(self, sequence: Sequence, computed: int, now_ps: int) -> None:
        """Record that slots which a sequence held and had not filled by now were never filled."""
        slots = self._state.allocator.num_empty(sequence, computed)
        self._recorder.never(sequence.last_block_ps, now_ps, slots)

    def usage_now(self) -> Usage:
        """Return the memory by state, in slots; O(running).

        KV of finished sequences of a batch is not useful any more: it counts as padding.
        """
        state = self._state
        usage = state.allocator.usage([*state.running, *state.ended])
        of_ended = sum(sequence.num_computed_tokens for sequence in state.ended)
        return usage._replace(padding=usage.padding + of_ended)

    def account(self, now_ps: int, *, idle: bool) -> None:
        """Record the memory, which was constant since the last event; O(running)."""
        state, recorder, since_ps = self._state, self._recorder, self._since_ps
        blank, cached, empty, duplicate, padding, shared = self.usage_now()
        num_running = len(state.running)
        recorder.interval(since_ps, now_ps, blank, cached, empty, duplicate, num_running)
        recorder.contiguous(since_ps, now_ps, padding, blank if self.fragmented else 0)
        recorder.shared(since_ps, now_ps, shared)
        recorder.host(since_ps, now_ps, state.mode.host.num_used)
        if idle:
            recorder.idle(since_ps, now_ps)
        if recorder.retention is not None:
            self._account_retention(now_ps - since_ps, blank + cached, padding)
        recorder.num_evicted_blocks = state.allocator.num_evicted
        recorder.num_host_full = state.mode.num_host_full
        recorder.peak_host_blocks = state.mode.host.peak_used
        self._since_ps = now_ps

    def _account_retention(self, ps: int, free: int, holes: int) -> None:
        """Record what was dropped and kept since the last event; O(running x blocks)."""
        account, config = self._recorder.retention, self._config
        assert account is not None, "the caller asked"
        if not ps:
            return
        allocator, running = cast("PagedAllocator", self._state.allocator), self._state.running
        held = config.usable_blocks * config.block_size - free
        computed = sum(sequence.num_computed_tokens for sequence in running)
        account.interval(ps, held, holes, allocator.num_kept_by_head(running), computed)
        for sequence in running:
            account.holds(sequence, allocator.num_held(sequence))


class RequestAccount:
    """See the module docstring; the sequences themselves are not changed."""

    def __init__(self, state: SchedulerState, memory: MemoryAccount, recorder: Recorder) -> None:
        self._mode = state.mode
        self._predictor = state.context.predictor
        self._memory = memory
        self._recorder = recorder

    def moved(self, step: ScheduledStep, now_ps: int) -> None:
        """Record the admissions, preemptions and swap-ins of a call."""
        recorder = self._recorder
        for sequence, hit_tokens, resumed in step.admitted:
            recorder.admitted(sequence.index, now_ps, hit_tokens, resumed=resumed)
            if resumed:
                self._judge(sequence, hit_tokens)
            elif self._predictor.predicts:
                recorder.predicted(sequence.index, self._predictor.output_tokens(sequence))
        for victim, computed, swapped_blocks in step.preempted:
            if swapped_blocks:
                recorder.swapped_out(victim.index, now_ps, swapped_blocks)
            else:
                recorder.preempted(victim.index, now_ps, computed)
            self._memory.released(victim, computed, now_ps)
        for sequence, num_blocks, hit_tokens in step.swapped_in:
            recorder.swapped_in(sequence.index, now_ps, num_blocks)
            sequence.last_block_ps = now_ps
            self._judge(sequence, hit_tokens)

    def _judge(self, sequence: Sequence, hit_tokens: int) -> None:
        """Report to the mode that a victim runs again, and record whether its choice was right."""
        judgement = self._mode.returned(sequence, hit_tokens)
        if judgement is not None:
            self._recorder.judged(swapped=judgement.swapped, right=judgement.right)

    def token(self, item: StepItem, now_ps: int) -> None:
        """Record a token; its gap is a stall if a preemption lies between it and the one before."""
        recorder, sequence = self._recorder, item.sequence
        index, gap_ps = sequence.index, now_ps - sequence.last_token_ps
        if recorder.first_token_ps[index] < 0:
            recorder.first_token_ps[index] = now_ps
        elif item.preemption_count != sequence.last_token_preemption_count:
            recorder.stall(index, now_ps, gap_ps, sequence.width)
        else:
            recorder.gaps.add(now_ps, gap_ps, sequence.width)
        sequence.last_token_ps, sequence.last_token_preemption_count = now_ps, item.preemption_count
        recorder.output_tokens[index] += 1
        recorder.further_tokens[index] += sequence.width - 1

    def finished(self, sequence: Sequence, now_ps: int) -> None:
        """Record the last token of a request."""
        self._predictor.finished(sequence)
        num_outputs = sequence.num_tokens - sequence.prompt_tokens
        self._recorder.finished(sequence.index, now_ps, num_outputs)
