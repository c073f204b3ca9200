"""Accounts of a stepper's requests: who entered, was put out, came back, got a token, finished.

The recorder is told, and so are the policies that learn from what happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvsim.policies.batching import ScheduledStep, SchedulerState
    from kvsim.policies.sequence import Sequence
    from kvsim.sim.engine.memory_account import MemoryAccount
    from kvsim.sim.engine.steps_in_flight import FlightItem
    from kvsim.sim.recording.recorder import Recorder


class RequestAccount:
    """See the module docstring; it changes nothing but when a sequence got a token or a block."""

    def __init__(self, state: SchedulerState, memory: MemoryAccount, recorder: Recorder) -> None:
        self._mode = state.mode
        self._predictor = state.context.predictor
        self._memory = memory
        self._recorder = recorder

    def moved(self, step: ScheduledStep, now_ps: int) -> None:
        """Who entered, was put out, or came back from the host in a call."""
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
        """A victim runs again: tell the mode, and note whether its choice was right."""
        judgement = self._mode.returned(sequence, hit_tokens)
        if judgement is not None:
            self._recorder.judged(swapped=judgement.swapped, right=judgement.right)

    def token(self, item: FlightItem, now_ps: int) -> None:
        """A token came; its gap is a stall if a preemption lies between it and the one before."""
        recorder, sequence = self._recorder, item.sequence
        index, gap_ps = sequence.index, now_ps - sequence.last_token_ps
        if recorder.first_token_ps[index] < 0:
            recorder.first_token_ps[index] = now_ps
        elif item.stint != sequence.last_token_stint:
            recorder.stall(index, now_ps, gap_ps, sequence.width)
        else:
            recorder.gaps.add(now_ps, gap_ps, sequence.width)
        sequence.last_token_ps, sequence.last_token_stint = now_ps, item.stint
        recorder.output_tokens[index] += 1
        recorder.further_tokens[index] += sequence.width - 1

    def finished(self, sequence: Sequence, now_ps: int) -> None:
        """The last token of a request came."""
        self._predictor.finished(sequence)
        num_outputs = sequence.known - sequence.prompt_tokens
        self._recorder.finished(sequence.index, now_ps, num_outputs)
