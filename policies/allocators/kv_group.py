"""Block tables of one KV group: its hits, kept blocks, needed blocks and keys (vLLM 0.32.0).

A block stays while any of its tokens is kept (:mod:`kvsim.policies.retention`). When all of them
are dropped, the table entry becomes the null block. A *full* group keeps every block. A *window*
group of W tokens needs only the last W - 1 tokens before the next one:

    table    [null][null][ 12 ][ 31 ][  7 ]
              skip = max(0, computed - W + 1) // block_size leading entries

Chosen retention drops tokens that the model would attend to. Its hits are those of full attention,
but blocks of a hit that would be dropped at once are not referenced. Blocks get a key only if all
their tokens were computed before the first drop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.policies.allocators.cached_blocks import Use
from kvsim.policies.allocators.holes import Holes

if TYPE_CHECKING:
    from collections.abc import Sequence as SequenceOf

    from kvsim.policies.allocators.block_pool import Block, BlockPool
    from kvsim.policies.allocators.relocations import Relocations
    from kvsim.policies.retention.base import Retention
    from kvsim.policies.sequence import Sequence


class GroupTables:
    """One KV group's block tables; all groups use one pool, and keys have the group number."""

    def __init__(
        self,
        number: int,
        pool: BlockPool,
        block_size: int,
        retention: Retention,
        retention_interval: int | None,
        max_model_len: int,
        max_tokens_in_flight: int,
        packed: Relocations | None = None,
    ) -> None:
        self.retention = retention
        self.window = retention.window
        self.tables: dict[int, list[Block]] = {}
        self.holes: dict[int, Holes] = {}
        self.number = number
        self._pool = pool
        self._block_size = block_size
        interval = block_size if retention_interval is None else retention_interval
        self._interval_blocks = interval // block_size
        self._packed = packed
        self._num_keyed: dict[int, int] = {}
        self._exact: dict[int, int] = {}  # tokens computed before the first drop
        self._swapped: dict[int, tuple[int, int, Holes]] = {}  # leading null entries, blocks
        self._cap_blocks = retention.most_blocks(block_size, max_tokens_in_flight, max_model_len)
        window = 1 if self.window is None else self.window
        self._run_blocks = -(-(window - 1) // block_size)

    def _kept(self, sequence: Sequence, computed: int) -> SequenceOf[range]:
        """Return the kept positions of the first ``computed`` ones."""
        if self.retention.waits_for_prompt and computed < sequence.num_tokens - 1:
            return (range(computed),)
        return self.retention.kept(sequence.index, computed)

    def _stays(self, sequence: Sequence, hit: list[Block], hit_tokens: int) -> list[bool]:
        """Return which blocks of a hit hold a kept token."""
        if self.retention.size is None:
            return [True] * len(hit)
        size, stays = self._block_size, [False] * len(hit)
        for part in self._kept(sequence, hit_tokens):
            last = -(-part.stop // size) if part else 0
            for index in range(part.start // size, last):
                stays[index] = True
        return stays

    @staticmethod
    def find_hit(
        alike: SequenceOf[GroupTables], sequence: Sequence, max_blocks: int
    ) -> list[list[Block]]:
        """Return each group's blocks of the longest common hit of at most ``max_blocks`` blocks.

        ``alike``: groups that keep the same tokens. A block is found only if all of them have it.
        In window groups only the last ``ceil((W - 1) / block_size)`` blocks before the end must be
        there. The search goes from the right: the first such run is the hit. If there is none, the
        run at the very start is the hit.
        """
        first = alike[0]
        tables: list[list[Block]] = []
        if first.window is None:
            for group in alike:
                tables.append(group._leading(sequence, max_blocks))
                max_blocks = len(tables[-1])
            return [table[:max_blocks] for table in tables]
        tables = [[first._pool.null] * max_blocks for _ in alike]
        run = 0
        for index in range(max_blocks - 1, -1, -1):
            run = run + 1 if _find(alike, sequence, index, tables) else 0
            if run and run >= first._run_blocks:
                return [table[: index + run] for table in tables]
        return [table[:run] for table in tables]

    def _leading(self, sequence: Sequence, max_blocks: int) -> list[Block]:
        """Return the blocks found before the first missing one."""
        blocks: list[Block] = []
        for index in range(max_blocks):
            found = self._lookup(sequence, index)
            if found is None:
                break
            blocks.append(found)
        return blocks

    def _lookup(self, sequence: Sequence, index: int) -> Block | None:
        return self._pool.lookup((self.number, sequence.block_key(index, self._block_size)))

    def num_needed(self, sequence: Sequence, tokens: int) -> int:
        """Return the blocks that a running sequence needs for ``tokens`` computed tokens."""
        return max(-(-tokens // self._block_size) - len(self.tables[sequence.index]), 0)

    def num_needed_at_admission(self, hit: list[Block], tokens: int) -> int:
        """Return the blocks for ``tokens`` tokens beyond those of a hit.

        Hit blocks that are free are not included.
        """
        return max(-(-tokens // self._block_size) - len(hit), 0)

    def num_reserved(self, hit: list[Block], tokens: int) -> int:
        """Return the new blocks of a whole sequence; a group never holds more than its limit."""
        if self._cap_blocks is not None:
            tokens = min(tokens, self._cap_blocks * self._block_size)
        return self.num_needed_at_admission(hit, tokens)

    def num_free_hit_blocks(self, sequence: Sequence, hit: list[Block], hit_tokens: int) -> int:
        """Return the hit blocks that are in the free queue and would leave it."""
        stays = self._stays(sequence, hit, hit_tokens)
        return sum(
            1
            for block, is_kept in zip(hit, stays, strict=True)
            if is_kept and block.ref_count == 0 and block is not self._pool.null
        )

    def admit(self, sequence: Sequence, hit: list[Block], hit_tokens: int) -> None:
        """Start a table with a hit: blocks with a kept token are referenced, the rest is null.

        Absent blocks stay in the table until :meth:`restore`.
        """
        use = _use_of(sequence)
        table = []
        for block, stays in zip(hit, self._stays(sequence, hit, hit_tokens), strict=True):
            table.append(block if stays else self._pool.null)
            if stays and block is not self._pool.null and block is not self._pool.absent:
                self._pool.touch(block, use)
        self.tables[sequence.index] = table
        self._num_keyed[sequence.index] = len(hit)
        self.holes[sequence.index] = Holes(self._block_size)
        if self.retention.size is not None:
            self._drop(sequence, hit_tokens, hit_tokens)

    def restore(self, sequence: Sequence) -> None:
        """Take blocks for the absent ones of a hit: their content returns at no cost."""
        table = self.tables[sequence.index]
        for index, block in enumerate(table):
            if block is self._pool.absent:
                table[index] = self._pool.take(1)[0]
                self._set_key(sequence, index)

    def extend(self, sequence: Sequence, tokens: int) -> None:
        """Take the blocks that ``tokens`` computed tokens need."""
        table = self.tables[sequence.index]
        table += self._pool.take(self.num_needed(sequence, tokens))

    def drop(self, sequence: Sequence) -> None:
        """Free the blocks without kept tokens, last one first; pack the others."""
        computed = sequence.num_computed_tokens - sequence.in_flight
        self._drop(sequence, computed, sequence.num_computed_tokens)
        if self._packed is not None:
            self._pack(sequence, computed)

    def _drop(self, sequence: Sequence, computed: int, scheduled: int) -> None:
        """Drop all but the kept of ``computed`` tokens; ``scheduled`` of them will be exact."""
        table = self.tables[sequence.index]
        kept = self._kept(sequence, computed)
        if sum(map(len, kept)) == computed:
            return
        self._exact.setdefault(sequence.index, scheduled)
        null = self._pool.null
        held = [block is not null for block in table]
        empty = self.holes[sequence.index].drop(kept, computed, held)
        dropped = [table[entry] for entry in empty]
        for entry in empty:
            table[entry] = null
        self._pool.release(dropped)

    def _pack(self, sequence: Sequence, computed: int) -> None:
        """Copy the tokens of the emptiest block into the holes of others, while they fit."""
        assert self._packed is not None
        table = self.tables[sequence.index]
        own = [block.ref_count == 1 and block.key is None for block in table]
        holes = self.holes[sequence.index]
        while (move := holes.pack(own, computed)) is not None:
            self._packed.pack(move.num_tokens)
            self._pool.release([table[move.entry]])
            table[move.entry] = self._pool.null
            own[move.entry] = False

    def set_keys(self, sequence: Sequence, tokens: int) -> None:
        """Give keys to the blocks that ``tokens`` known and computed tokens fill."""
        table = self.tables[sequence.index]
        if self.window is None:
            tokens = min(tokens, self._exact.get(sequence.index, tokens))
        first, upto = self._num_keyed[sequence.index], tokens // self._block_size
        for index in range(first, upto):
            block = table[index]
            if block is not self._pool.null and self._keeps(sequence, index):
                self._set_key(sequence, index)
        self._num_keyed[sequence.index] = max(first, upto)

    def _set_key(self, sequence: Sequence, index: int) -> None:
        """Give a block its key; with full attention the block before it is the parent."""
        parent = None
        if self.window is None and index:
            parent = (self.number, sequence.block_key(index - 1, self._block_size))
        self._pool.set_key(
            self.tables[sequence.index][index],
            (self.number, sequence.block_key(index, self._block_size)),
            parent=parent,
            past=index * self._block_size,
            use=_use_of(sequence),
        )

    def _keeps(self, sequence: Sequence, index: int) -> bool:
        """Whether block ``index`` gets a key.

        In a window group it gets one only if a hit could end close behind it. A group keeps blocks
        for hits with three possible ends: an interval's end, before the last token of the prompt,
        or the junction.
        """
        if self.window is None:
            return True
        run, interval = self._run_blocks, self._interval_blocks
        if interval and index % interval >= interval - run:
            return True
        ends = ((sequence.prompt_tokens - 1) // self._block_size, sequence.junction_blocks)
        return any(end - run <= index < end for end in ends)

    def release(self, sequence: Sequence) -> None:
        """Free all blocks, last one first."""
        self._pool.release(reversed(self.tables.pop(sequence.index)))
        del self._num_keyed[sequence.index], self.holes[sequence.index]
        self._exact.pop(sequence.index, None)
        self.retention.forget(sequence.index)

    def swap_out(self, sequence: Sequence) -> None:
        """Free all blocks, but remember the number of null entries and the holes of the others."""
        table = self.tables[sequence.index]
        num_null = sum(block is self._pool.null for block in table)
        holes = self.holes[sequence.index]
        self._swapped[sequence.index] = (num_null, len(table) - num_null, holes)
        self.release(sequence)

    def num_needed_at_swap_in(self, sequence: Sequence, tokens: int) -> int:
        """Return the new blocks for a swapped sequence with ``tokens`` computed tokens."""
        num_null, num_blocks, _ = self._swapped[sequence.index]
        return max(-(-tokens // self._block_size) - num_null, num_blocks)

    def swap_in(self, sequence: Sequence, tokens: int) -> None:
        """Rebuild the table from new blocks, and take those that ``tokens`` need beyond it."""
        num_null, num_blocks, holes = self._swapped.pop(sequence.index)
        blocks = self._pool.take(num_blocks)
        self.tables[sequence.index] = [self._pool.null] * num_null + blocks
        self._num_keyed[sequence.index] = num_null
        self.holes[sequence.index] = holes
        self.extend(sequence, tokens)

    def forget(self, sequence: Sequence) -> None:
        """Forget a swapped sequence."""
        del self._swapped[sequence.index]

    def num_kept_by_head(self, sequence: Sequence) -> int:
        """Return the tokens that each head keeps, including those in flight."""
        size = self.retention.size
        if size is None or sequence.index not in self._exact:
            return sequence.num_computed_tokens
        return min(sequence.num_computed_tokens, size - 1 + sequence.in_flight)

    def check_invariants(self) -> None:
        """Verify that no table holds a free block, and that holes are in blocks of tables."""
        assert not self.tables.keys() & self._swapped.keys(), "a swapped sequence has a table"
        assert self.tables.keys() == self.holes.keys(), "holes without a table"
        for index, holes in self.holes.items():
            holes.check_invariants()
            table = self.tables[index]
            null = self._pool.null
            assert all(table[entry] is not null for entry in holes.masks), "a hole in no block"
        for table in self.tables.values():
            for block in table:
                assert block is self._pool.null or block.ref_count > 0, f"{block} is held but free"


def _find(
    alike: SequenceOf[GroupTables], sequence: Sequence, index: int, tables: list[list[Block]]
) -> bool:
    """Append a block to all tables, if each group has it."""
    found = [group._lookup(sequence, index) for group in alike]
    if None in found:
        return False
    for table, block in zip(tables, found, strict=True):
        assert block is not None
        table[index] = block
    return True


def _use_of(sequence: Sequence) -> Use:
    """Return the use by a sequence; in vLLM a lower request priority is served sooner."""
    return Use(sequence.index, -sequence.priority, counts=not sequence.num_preemptions)
