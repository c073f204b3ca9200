"""Block tables of one sequence group: the samples, or beams, of one prompt (vLLM's engine v0).

Sequences share blocks by reference and copy one only when they write to it (PagedAttention paper,
section 4.4; vLLM 0.8.5, core/block_manager.py ``fork`` and ``append_slots``, read). A prompt of 10
tokens in blocks of 4, three samples:

    prompt       [A][B][C.]                           computed once
    1st write    [A][B][D.]  [A][B][E.]  [A][B][C.]   two copies; the last writer alone holds C
    3rd write    each takes a new block

All sequences of a group are equally long, so a column of blocks is written in one step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence as SequenceOf

    from kvsim.policies.allocators.block_pool import Block, BlockPool


class GivenUp(NamedTuple):
    """``slots`` of a block taken at ``taken_ps`` stayed empty until its last holder released it."""

    taken_ps: int
    slots: int


class Shape(NamedTuple):
    """Tables of a group with its ``num_blocks`` blocks by number, shared ones once."""

    tables: list[list[int]]
    num_blocks: int


def num_to_write(
    tables: SequenceOf[SequenceOf[Block | int]], computed: int, block_size: int, width: int
) -> int:
    """Return the blocks for the next token of ``width`` sequences, after ``computed`` in each.

    A group may have got room for that token already and then been preempted. It takes no more.
    """
    if computed == len(tables[0]) * block_size:
        return width
    return width - len({table[-1] for table in tables})


class SequenceGroup:
    """``tables``: one while the prompt is computed, then one for each of the ``width`` sequences.

    ``num_copied`` counts blocks copied on write. :meth:`take_given_up` reports freed blocks, except
    those of a step that never started (no :meth:`date` since).
    """

    def __init__(self, pool: BlockPool, block_size: int, width: int) -> None:
        self.tables: list[list[Block]] = [[]]
        self.width = width
        self.num_copied = 0
        self._pool = pool
        self._block_size = block_size
        self._taken_ps: dict[int, int] = {}
        self._undated: list[Block] = []
        self._given_up: list[GivenUp] = []

    def extend_prompt(self, tokens: int) -> None:
        """Take the blocks of the first ``tokens`` prompt tokens."""
        assert len(self.tables) == 1, "a prompt is computed before its sequences differ"
        self.tables[0] += self._take(self.num_lacking(tokens))

    def num_lacking(self, tokens: int) -> int:
        """Return the blocks that the prompt's table needs for ``tokens`` tokens."""
        return max(-(-tokens // self._block_size) - len(self.tables[0]), 0)

    def num_to_write(self, computed: int) -> int:
        """Return the blocks for each sequence's next token, with ``computed`` tokens in each."""
        return num_to_write(self.tables, computed, self._block_size, self.width)

    def write(self, computed: int) -> None:
        """Make room for each sequence's next token; copy blocks that other sequences hold."""
        while len(self.tables) < self.width:
            self.tables.append(self._shared(self.tables[0]))
        if computed == len(self.tables[0]) * self._block_size:
            for table in self.tables:
                table.extend(self._take(1))
            return
        for table in self.tables:
            if table[-1].ref_count > 1:
                self._pool.release([table[-1]])
                table[-1:] = self._take(1)
                self.num_copied += 1

    def go_on_from(self, parents: SequenceOf[int], computed: int) -> None:
        """Continue each beam from one of the present beams; beams without a child are dropped."""
        before, self.tables = self.tables, [self._shared(self.tables[i]) for i in parents]
        self._give_up(before, computed)

    def release(self, computed: int) -> None:
        """Free all blocks, last one first."""
        before, self.tables = self.tables, []
        self._give_up(before, computed)

    def shape(self) -> Shape:
        """Return which entries of the tables are the same block."""
        numbers: dict[int, int] = {}
        tables = [
            [numbers.setdefault(block.id, len(numbers)) for block in table] for table in self.tables
        ]
        return Shape(tables, len(numbers))

    def rebuild(self, shape: Shape) -> None:
        """Take new blocks, shared as they were."""
        blocks = self._take(shape.num_blocks)
        seen: set[int] = set()
        for table in shape.tables:
            for number in table:
                if number in seen:
                    self._pool.share(blocks[number])
                seen.add(number)
        self.tables = [[blocks[number] for number in table] for table in shape.tables]

    # ---- accounts ----------------------------------------------------------------------------

    def num_empty(self, computed: int) -> int:
        """Return the slots without a token: the free ends of the last column's blocks."""
        last = {table[-1].id for table in self.tables if table}
        return len(last) * (len(self.tables[0]) * self._block_size - computed)

    def date(self, now_ps: int) -> None:
        """Note that blocks taken since the last step are filled from now on."""
        for block in self._undated:
            self._taken_ps[block.id] = now_ps
        self._undated.clear()

    def take_given_up(self) -> list[GivenUp]:
        """Return the blocks with empty slots that were freed since the last call."""
        given_up, self._given_up = self._given_up, []
        return given_up

    def _take(self, count: int) -> list[Block]:
        blocks = self._pool.take(count)
        self._undated += blocks
        return blocks

    def _shared(self, table: list[Block]) -> list[Block]:
        for block in table:
            self._pool.share(block)
        return list(table)

    def _give_up(self, tables: list[list[Block]], computed: int) -> None:
        for table in tables:
            self._pool.release(reversed(table))
        gone = {
            block.id: column
            for table in tables
            for column, block in enumerate(table)
            if not block.ref_count
        }
        for block_id, column in gone.items():
            taken_ps = self._taken_ps.pop(block_id, None)
            empty = min((column + 1) * self._block_size - computed, self._block_size)
            if taken_ps is not None and empty > 0:
                self._given_up.append(GivenUp(taken_ps, empty))
        self._undated = [block for block in self._undated if block.id not in gone]
