"""Paged blocks for sequence groups; single sequences are handled as without groups (vLLM's v0).

A group is admitted as a whole. Its prompt is computed once. Then its sequences differ, and they
share blocks until they write to them. A group is also swapped as a whole. Each block is copied to
the host once, and after swap-in the blocks are shared as before (PagedAttention paper, section
4.5). Groups of several sequences need one KV group of full attention without a prefix cache. Runs
refuse them elsewhere.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kvsim.policies.allocators.paged import PagedAllocator
from kvsim.policies.allocators.sequence_group import SequenceGroup, num_to_write

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Sequence as SequenceOf

    from kvsim.policies.allocators.base import Hit, Usage
    from kvsim.policies.allocators.block_pool import Block
    from kvsim.policies.allocators.sequence_group import GivenUp, Shape
    from kvsim.policies.eviction import EvictionOrder
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.policies.sequence import Sequence


class GroupedAllocator(PagedAllocator):
    """See the module docstring; ``num_copied``: blocks copied on write so far."""

    def __init__(
        self,
        config: SchedulerConfig,
        order: EvictionOrder[Block] | None = None,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(config, order, seed=seed)
        self._sequence_groups: dict[int, SequenceGroup] = {}
        self._shapes: dict[int, Shape] = {}
        self.num_copied = 0
        self._given_up: list[GivenUp] = []

    def num_lacking(self, sequence: Sequence, tokens: int) -> int:
        """Return the blocks that the tables need, including blocks to be copied."""
        if sequence.width == 1:
            return super().num_lacking(sequence, tokens)
        group = self._sequence_groups[sequence.index]
        if sequence.num_computed_tokens < sequence.prompt_tokens:
            return group.num_lacking(tokens)
        assert tokens == sequence.num_computed_tokens + 1, (
            "sequences of a group decode token by token"
        )
        return group.num_to_write(sequence.num_computed_tokens)

    def admit(self, sequence: Sequence, hit: Hit, new_tokens: int) -> None:
        """Take the blocks of the prompt's first chunk; see :meth:`PagedAllocator.admit`."""
        if sequence.width == 1:
            super().admit(sequence, hit, new_tokens)
            return
        group = SequenceGroup(self.pool, self._block_size, sequence.width)
        self._sequence_groups[sequence.index] = group
        group.extend_prompt(new_tokens)

    def grow(self, sequence: Sequence, new_tokens: int) -> bool:
        """Give a sequence, or all of a group, room; return False (no change) if it is missing."""
        if sequence.width == 1:
            return super().grow(sequence, new_tokens)
        if (
            self.num_lacking(sequence, sequence.num_computed_tokens + new_tokens)
            > self.pool.num_free
        ):
            return False
        self._extend(sequence, new_tokens)
        return True

    def _extend(self, sequence: Sequence, new_tokens: int) -> None:
        group = self._sequence_groups[sequence.index]
        if sequence.num_computed_tokens < sequence.prompt_tokens:
            group.extend_prompt(sequence.num_computed_tokens + new_tokens)
            return
        before = group.num_copied
        group.write(sequence.num_computed_tokens)
        self.num_copied += group.num_copied - before

    def set_keys(self, sequence: Sequence, tokens: int) -> None:
        """Set the keys of a single sequence; groups of several have no prefix cache."""
        if sequence.width == 1:
            super().set_keys(sequence, tokens)

    def release(self, sequence: Sequence) -> None:
        """Free all blocks."""
        if sequence.width == 1:
            super().release(sequence)
            return
        group = self._sequence_groups.pop(sequence.index)
        group.release(sequence.num_computed_tokens)
        self._given_up += group.take_given_up()

    def go_on_from(self, sequence: Sequence, parents: SequenceOf[int]) -> None:
        """Continue beam ``i`` of a group from its beam ``parents[i]``."""
        group = self._sequence_groups[sequence.index]
        group.go_on_from(parents, sequence.num_computed_tokens)
        self._given_up += group.take_given_up()

    # ---- to the host and back ----------------------------------------------------------------

    def swap_out(self, sequence: Sequence) -> None:
        """Free all blocks, but remember which sequences shared which."""
        if sequence.width == 1:
            super().swap_out(sequence)
            return
        self._shapes[sequence.index] = self._sequence_groups[sequence.index].shape()
        self.release(sequence)

    def _num_needed_at_swap_in(self, sequence: Sequence, new_tokens: int) -> int:
        if sequence.width == 1:
            return super()._num_needed_at_swap_in(sequence, new_tokens)
        shape, size, computed = (
            self._shapes[sequence.index],
            self._block_size,
            sequence.num_computed_tokens,
        )
        if computed < sequence.prompt_tokens:
            return max(-(-(computed + new_tokens) // size), shape.num_blocks)
        return shape.num_blocks + num_to_write(shape.tables, computed, size, sequence.width)

    def swap_in(self, sequence: Sequence, new_tokens: int) -> None:
        """Give the sequence new blocks, and room for ``new_tokens`` more."""
        if sequence.width == 1:
            super().swap_in(sequence, new_tokens)
            return
        group = SequenceGroup(self.pool, self._block_size, sequence.width)
        group.rebuild(self._shapes.pop(sequence.index))
        self._sequence_groups[sequence.index] = group
        self._extend(sequence, new_tokens)

    def forget_swapped(self, sequence: Sequence) -> None:
        """Forget a swapped sequence, which will not be swapped in."""
        if sequence.width == 1:
            super().forget_swapped(sequence)
        else:
            del self._shapes[sequence.index]

    # ---- accounts ----------------------------------------------------------------------------

    def date(self, sequence: Sequence, now_ps: int) -> None:
        """Note that a step of a group begins: the blocks taken for it count from now on."""
        self._sequence_groups[sequence.index].date(now_ps)

    def take_given_up(self) -> list[GivenUp]:
        """Return the partly empty blocks that groups have freed since the last call."""
        given_up, self._given_up = self._given_up, []
        return given_up

    def num_empty(self, sequence: Sequence, tokens: int) -> int:
        """Return the free end of a sequence's last block; groups report theirs block by block."""
        return super().num_empty(sequence, tokens) if sequence.width == 1 else 0

    def usage(self, running: Iterable[Sequence]) -> Usage:
        """Return the slots by state; O(sequences)."""
        members = list(running)
        usage = super().usage(member for member in members if member.width == 1)
        empty = sum(
            self._sequence_groups[member.index].num_empty(member.num_computed_tokens)
            for member in members
            if member.width > 1
        )
        return usage._replace(empty=usage.empty + empty)

    def owners(self) -> set[int]:
        """Return the sequences, and groups, with block tables."""
        return super().owners() | set(self._sequence_groups)

    def num_held(self, sequence: Sequence) -> int:
        """Return the blocks of a sequence, or of a group, each once."""
        if sequence.width == 1:
            return super().num_held(sequence)
        return self._sequence_groups[sequence.index].shape().num_blocks

    def check_invariants(self) -> None:
        """Verify pool and tables, and count all references of groups again; O(pool)."""
        super().check_invariants()
        for index, group in self._sequence_groups.items():
            assert len(group.tables) in (1, group.width), f"group {index} lost a sequence"
            assert len({len(table) for table in group.tables}) == 1, "sequences are equally long"
            refs = Counter(block.id for table in group.tables for block in table)
            for table in group.tables:
                for block in table:
                    assert block.ref_count == refs[block.id], f"{block} has other references"
