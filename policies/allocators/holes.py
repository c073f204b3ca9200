"""Slots of a sequence's blocks with a dropped token, and packing of the remaining tokens.

    entry      0               1               2               block size 4, kept: 0, 6, 7, 9 on
    slots    [ 0  .  .  . ]  [ .  .  6  7 ]  [ .  9 10    ]    . is a hole, a bit of the mask

    packed   [ 0  6  7  . ]    freed         [ .  9 10    ]    two tokens copied

The emptiest block is freed as soon as its tokens fit into the holes of others. So each freed block
costs the fewest copies.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Move(NamedTuple):
    """``num_tokens`` were copied out of the block at ``entry``, which is empty now."""

    entry: int
    num_tokens: int


class Holes:
    """Holes of one sequence's table: ``masks`` by entry; no mask is 0 or full.

    Token ``p`` is in slot ``p % block_size`` of entry ``p // block_size``, unless it was packed
    into another slot.
    """

    __slots__ = ("_full", "_guests", "_size", "masks")

    def __init__(self, block_size: int) -> None:
        self.masks: dict[int, int] = {}
        self._size = block_size
        self._full = (1 << block_size) - 1
        self._guests: dict[int, dict[int, int]] = {}  # entry: slot: packed token

    def drop(self, kept: Sequence[range], computed: int, held: Sequence[bool]) -> list[int]:
        """Drop the tokens of ``computed`` that are not kept; ``held``: which entries have a block.

        Returns the entries that hold no token any more, last one first. O(entries + ranges).
        """
        masks = self._own_slots(kept, computed, held)
        starts = [part.start for part in kept]
        for entry, guests in self._guests.items():
            for slot, token in list(guests.items()):
                place = bisect_right(starts, token) - 1
                if place < 0 or token not in kept[place]:
                    del guests[slot]
            for slot in guests:
                masks[entry] &= ~(1 << slot)
        empty = [entry for entry, mask in masks.items() if mask == self._full]
        for entry in empty:
            self._guests.pop(entry, None)
        self.masks = {entry: mask for entry, mask in masks.items() if 0 < mask < self._full}
        return empty

    def _own_slots(
        self, kept: Sequence[range], computed: int, held: Sequence[bool]
    ) -> dict[int, int]:
        """Yield the slots with a dropped token at its original place, from the last entry on."""
        size, masks = self._size, dict[int, int]()
        for start, stop in _gaps(kept, computed):
            first, last = start // size, (stop - 1) // size
            for entry in range(min(last, len(held) - 1), first - 1, -1):
                if held[entry]:
                    low = start - entry * size if entry == first else 0
                    high = stop - entry * size if entry == last else size
                    masks[entry] = masks.get(entry, 0) | (1 << high) - (1 << low)
        return masks

    def pack(self, own: Sequence[bool], computed: int) -> Move | None:
        """Copy the tokens of the emptiest block into the holes of others, if there are enough.

        Only completely computed blocks take part. Only the blocks that ``own`` marks receive tokens
        (no other sequence can see them). Returns ``None`` if no block can be emptied this way.
        """
        size = self._size
        whole = [entry for entry in sorted(self.masks) if (entry + 1) * size <= computed]
        if not whole:
            return None
        source = min(whole, key=lambda entry: size - self.masks[entry].bit_count())
        tokens = self._tokens_of(source)
        room = [
            (entry, slot)
            for entry in whole
            if entry != source and own[entry]
            for slot in range(size)
            if self.masks[entry] >> slot & 1
        ]
        if len(room) < len(tokens):
            return None
        for (entry, slot), token in zip(room, tokens, strict=False):
            self._guests.setdefault(entry, {})[slot] = token
            self.masks[entry] &= ~(1 << slot)
            if not self.masks[entry]:
                del self.masks[entry]
        del self.masks[source]
        self._guests.pop(source, None)
        return Move(source, len(tokens))

    def _tokens_of(self, entry: int) -> list[int]:
        """Return the tokens of the block at ``entry``, by slot."""
        guests = self._guests.get(entry, {})
        return [
            guests.get(slot, entry * self._size + slot)
            for slot in range(self._size)
            if not self.masks[entry] >> slot & 1
        ]

    def check_invariants(self) -> None:
        """Verify that masks belong to partly filled blocks, and packed tokens are not in holes."""
        assert all(0 < mask < self._full for mask in self.masks.values()), "an idle mask"
        for entry, guests in self._guests.items():
            for slot in guests:
                assert not self.masks.get(entry, 0) >> slot & 1, "a packed token in a hole"


def _gaps(kept: Sequence[range], computed: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches of dropped tokens below ``computed``, last one first."""
    stop = computed
    for part in reversed(kept):
        if part.stop < stop:
            yield part.stop, stop
        stop = part.start
    if stop > 0:
        yield 0, stop
