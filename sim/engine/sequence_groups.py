"""The additional effects of a step on groups of several sequences.

A group samples a token for each of its sequences. Blocks that it copies on write take time before
its step. Beams continue from the beams that the beam tree chooses. A block that no sequence holds
any more was partly empty since it was taken. The stepper calls these methods; without groups they
do nothing.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from kvsim.policies.allocators.grouped import GroupedAllocator

if TYPE_CHECKING:
    from kvsim.policies.allocators.base import Allocator
    from kvsim.policies.batching import ScheduledStep
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.policies.sequence import Sequence
    from kvsim.sim.cost.step_cost import StepCost
    from kvsim.sim.recording.recorder import Recorder


class BeamTree:
    """``turnover``: share of tokens after which beams are drawn anew; one generator a request."""

    def __init__(self, seed: int, turnover: float) -> None:
        self._seed = seed
        self._turnover = turnover
        self._generators: dict[int, Random] = {}

    def parents(self, index: int, width: int) -> list[int] | None:
        """Return the parents of the beams of request ``index``; ``None``: each continues itself."""
        draws = self._generators.get(index)
        if draws is None:
            draws = self._generators[index] = Random(f"beams/{self._seed}/{index}")
        if draws.random() >= self._turnover:
            return None
        return [draws.randrange(width) for _ in range(width)]


class SequenceGroups:
    """See the module docstring."""

    def __init__(
        self,
        allocator: Allocator,
        config: SchedulerConfig,
        cost: StepCost,
        recorder: Recorder,
        seed: int,
    ) -> None:
        self._allocator = allocator if isinstance(allocator, GroupedAllocator) else None
        self._block_size = config.block_size
        self._cost = cost
        self._recorder = recorder
        self._tree = BeamTree(seed, config.beam_turnover)

    def launched(self, step: ScheduledStep, now_ps: int) -> int:
        """Note that a step begins: blocks are filled from now on; return ps of its copies on write.

        Blocks that victims of its scheduling call freed are recorded too.
        """
        allocator, recorder = self._allocator, self._recorder
        if allocator is None:
            return 0
        for item in step.items:
            if item.sequence.width > 1:
                allocator.date(item.sequence, now_ps)
        num_copied = allocator.num_copied - recorder.copied_on_write_blocks
        copy_ps = self._cost.copy_ps(num_copied * self._block_size)
        self.settle(now_ps)
        recorder.copied_on_write_blocks = allocator.num_copied
        recorder.copy_on_write_ps += copy_ps
        return copy_ps

    def choose_beams(self, sequence: Sequence) -> None:
        """Continue from the surviving beams after each beam has got a token."""
        if self._allocator is None or not sequence.beams:
            return
        if sequence.num_computed_tokens == sequence.prompt_tokens:
            return  # first tokens: all continue one prompt
        parents = self._tree.parents(sequence.index, sequence.width)
        if parents is not None:
            self._allocator.go_on_from(sequence, parents)

    def settle(self, now_ps: int) -> None:
        """Record the blocks freed by now."""
        if self._allocator is not None:
            for taken_ps, slots in self._allocator.take_given_up():
                self._recorder.never(taken_ps, now_ps, slots)
