"""Block tables of one KV group: what is hit, kept, needed and given a key (vLLM 0.32.0).

A *full* group keeps every block. A *window* group of W tokens needs only the last W - 1 tokens
before the next one: leading entries of its table are the null block once they fell out.

    table    [null][null][ 12 ][ 31 ][  7 ]
              skip = max(0, computed - W + 1) // block_size leading entries
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.allocators.cached_blocks import Use

if TYPE_CHECKING:
    from kvsim.policies.allocators.block_pool import Block, BlockPool
    from kvsim.policies.sequence import Sequence


class GroupTables:
    """One KV group's block tables; all groups draw from one pool, keys carry the group number."""

    def __init__(
        self,
        group: int,
        pool: BlockPool,
        block_size: int,
        sliding_window: int | None,
        retention_interval: int | None,
        max_model_len: int,
        max_tokens_in_flight: int,
    ) -> None:
        self.window = sliding_window
        self.tables: dict[int, list[Block]] = {}
        self._group = group
        self._pool = pool
        self._block_size = block_size
        self._retention_interval = retention_interval
        self._num_keyed: dict[int, int] = {}
        self._swapped: dict[int, tuple[int, int]] = {}  # leading null entries, blocks
        if sliding_window is None:
            self._cap_blocks: int | None = None
            self._run_blocks = 0
        else:
            held = min(sliding_window - 1 + max_tokens_in_flight, max_model_len)
            self._cap_blocks = -(-held // block_size) + 1
            self._run_blocks = -(-(sliding_window - 1) // block_size)

    def skipped(self, computed: int) -> int:
        """Leading blocks that no later token can attend to."""
        if self.window is None:
            return 0
        return max(0, computed - self.window + 1) // self._block_size

    def find_hit(self, sequence: Sequence, max_blocks: int) -> list[Block]:
        """Blocks of the longest hit of at most ``max_blocks`` blocks; changes nothing.

        In a window group only the last ``ceil((W - 1) / block_size)`` blocks before the end must
        be there: the first such run from the right wins, else the run from the very start.
        """
        if self.window is None:
            blocks: list[Block] = []
            for index in range(max_blocks):
                found = self._lookup(sequence, index)
                if found is None:
                    break
                blocks.append(found)
            return blocks
        entries = [self._pool.null] * max_blocks
        run = 0
        for index in range(max_blocks - 1, -1, -1):
            found = self._lookup(sequence, index)
            run = run + 1 if found is not None else 0
            if found is not None:
                entries[index] = found
                if run >= self._run_blocks:
                    return entries[: index + run]
        return entries[:run]

    def _lookup(self, sequence: Sequence, index: int) -> Block | None:
        return self._pool.lookup((self._group, sequence.block_key(index, self._block_size)))

    def num_needed(self, sequence: Sequence, tokens: int) -> int:
        """Blocks a running sequence lacks for ``tokens`` computed tokens."""
        return max(-(-tokens // self._block_size) - len(self.tables[sequence.index]), 0)

    def num_needed_at_admission(self, hit: list[Block], hit_tokens: int, tokens: int) -> int:
        """New blocks for ``tokens`` tokens beyond a hit; free hit blocks come on top."""
        return max(-(-tokens // self._block_size) - max(self.skipped(hit_tokens), len(hit)), 0)

    def num_reserved(self, hit: list[Block], hit_tokens: int, tokens: int) -> int:
        """The same for a whole sequence, of which a window group never holds more than its cap."""
        if self._cap_blocks is not None:
            tokens = min(tokens, self._cap_blocks * self._block_size)
        return self.num_needed_at_admission(hit, hit_tokens, tokens)

    def num_free_hit_blocks(self, hit: list[Block], hit_tokens: int) -> int:
        """Hit blocks that sit in the free queue and would leave it."""
        return sum(
            1
            for block in hit[self.skipped(hit_tokens) :]
            if block.ref_count == 0 and block is not self._pool.null
        )

    def admit(self, sequence: Sequence, hit: list[Block], hit_tokens: int) -> None:
        """Start a table with a hit: the part inside the window is referenced, the rest null.

        Absent blocks stand for themselves until :meth:`restore`.
        """
        skipped = min(self.skipped(hit_tokens), len(hit))
        use = _use_of(sequence)
        for block in hit[skipped:]:
            if block is not self._pool.absent:
                self._pool.touch(block, use)
        self.tables[sequence.index] = [self._pool.null] * skipped + hit[skipped:]
        self._num_keyed[sequence.index] = len(hit)

    def restore(self, sequence: Sequence) -> None:
        """Take blocks for the absent ones of a hit: their content is back, at no cost."""
        table = self.tables[sequence.index]
        for index, block in enumerate(table):
            if block is self._pool.absent:
                table[index] = self._pool.take(1)[0]
                self._set_key(sequence, index)

    def extend(self, sequence: Sequence, tokens: int) -> None:
        """Take the blocks that ``tokens`` computed tokens need."""
        table = self.tables[sequence.index]
        table += self._pool.take(self.num_needed(sequence, tokens))

    def drop_out_of_window(self, sequence: Sequence) -> None:
        """Give up blocks that fell out of the window, last one first."""
        table = self.tables[sequence.index]
        dropped = []
        for index in range(self.skipped(sequence.computed - sequence.in_flight) - 1, -1, -1):
            if index >= len(table) or table[index] is self._pool.null:
                continue
            dropped.append(table[index])
            table[index] = self._pool.null
        self._pool.release(dropped)

    def set_keys(self, sequence: Sequence, tokens: int) -> None:
        """Give keys to the blocks that ``tokens`` known and computed tokens fill."""
        table = self.tables[sequence.index]
        first, upto = self._num_keyed[sequence.index], tokens // self._block_size
        for index in range(first, upto):
            block = table[index]
            if block is not self._pool.null and self._keeps(sequence, index):
                self._set_key(sequence, index)
        self._num_keyed[sequence.index] = max(first, upto)

    def _set_key(self, sequence: Sequence, index: int) -> None:
        """Give a block its key; in a chain of full attention the block before it is its parent."""
        parent = None
        if self.window is None and index:
            parent = (self._group, sequence.block_key(index - 1, self._block_size))
        self._pool.set_key(
            self.tables[sequence.index][index],
            (self._group, sequence.block_key(index, self._block_size)),
            parent=parent,
            past=index * self._block_size,
            use=_use_of(sequence),
        )

    def _keeps(self, sequence: Sequence, index: int) -> bool:
        """Whether the retention rule gives block ``index`` a key (window groups only)."""
        if self.window is None or self._retention_interval is None:
            return True
        ends = ((sequence.prompt_tokens - 1) // self._block_size, sequence.junction_blocks)
        return any(end - self._run_blocks <= index < end for end in ends)

    def release(self, sequence: Sequence) -> None:
        """Give up all blocks, tail first."""
        self._pool.release(reversed(self.tables.pop(sequence.index)))
        del self._num_keyed[sequence.index]

    def swap_out(self, sequence: Sequence) -> None:
        """Give up all blocks, but remember how many entries were null and how many blocks."""
        table = self.tables[sequence.index]
        num_null = sum(block is self._pool.null for block in table)
        self._swapped[sequence.index] = (num_null, len(table) - num_null)
        self.release(sequence)

    def num_needed_at_swap_in(self, sequence: Sequence, tokens: int) -> int:
        """New blocks for a swapped sequence that will have ``tokens`` computed tokens."""
        num_null, num_blocks = self._swapped[sequence.index]
        return max(-(-tokens // self._block_size) - num_null, num_blocks)

    def swap_in(self, sequence: Sequence, tokens: int) -> None:
        """Rebuild the table of new blocks, and take those that ``tokens`` need beyond it."""
        num_null, num_blocks = self._swapped.pop(sequence.index)
        blocks = self._pool.take(num_blocks)
        self.tables[sequence.index] = [self._pool.null] * num_null + blocks
        self._num_keyed[sequence.index] = num_null
        self.extend(sequence, tokens)

    def forget(self, sequence: Sequence) -> None:
        """Drop what is remembered of a swapped sequence."""
        del self._swapped[sequence.index]

    def check_invariants(self) -> None:
        """Verify that no table holds a free block."""
        assert not self.tables.keys() & self._swapped.keys(), "a swapped sequence has a table"
        for table in self.tables.values():
            for block in table:
                assert block is self._pool.null or block.ref_count > 0, f"{block} is held but free"


def _use_of(sequence: Sequence) -> Use:
    """Priorities of requests are vLLM's: lower is sooner."""
    return Use(sequence.index, -sequence.priority, counts=not sequence.num_preemptions)
