"""S3-FIFO: a small queue for entries used once, a main queue, and a ghost list of keys.

Source: Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023, algorithm 1.
There the cache has a fixed capacity, the small queue has a tenth of it, and every object may be
evicted. Here the capacity is the number of resident entries, because running requests change the
size of the cache. Entries in use, or with children, keep their places and are skipped.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from kvsim.policies.eviction.base import EvictionOrder, NamedEntry
from kvsim.policies.eviction.line import Line

if TYPE_CHECKING:
    from collections.abc import Hashable

    from kvsim.policies.context import PolicyContext

_SMALL_PART: Final = 10
_MOST_HITS: Final = 3


class S3Fifo(EvictionOrder[NamedEntry]):
    """Entries start in the small queue, or in the main queue if the ghost list has their key.

    While the small queue has at least a tenth of the resident entries, it gives up its oldest
    candidate. A candidate with more than one hit moves to the main queue. Any other is evicted, and
    its key goes to the ghost list. The main queue puts candidates with hits back and takes one hit
    off each. A queue without candidates is skipped. The ghost list has room for keys of nine tenths
    of the resident entries.
    """

    needs_names = True

    def __init__(self, context: PolicyContext) -> None:
        del context
        self._number: dict[NamedEntry, int] = {}
        self._hits: dict[NamedEntry, int] = {}
        self._main: set[NamedEntry] = set()
        self._small_line: Line[NamedEntry] = Line()
        self._main_line: Line[NamedEntry] = Line()
        self._ghost: OrderedDict[Hashable, None] = OrderedDict()
        self._num_joined = 0

    def inserted(self, entry: NamedEntry) -> None:
        """Join the small or the main queue."""
        self._hits[entry] = 0
        self._join(entry)
        if entry.key in self._ghost:
            del self._ghost[entry.key]
            self._main.add(entry)

    def referenced(self, entry: NamedEntry) -> None:
        """Count up to three accesses."""
        self._hits[entry] = min(self._hits[entry] + 1, _MOST_HITS)

    def released(self, entry: NamedEntry) -> None:
        """Make an entry a candidate of its queue."""
        self._line(entry).enter(self._number[entry], entry)

    def held(self, entry: NamedEntry) -> None:
        """Make an entry no candidate."""
        self._line(entry).leave(self._number[entry])

    def victim(self) -> NamedEntry | None:
        """Remove and return the next entry to evict; amortised O(log n) an access."""
        while len(self):
            num_small = len(self._number) - len(self._main)
            small_is_full = num_small * _SMALL_PART >= len(self._number)
            if len(self._small_line) and (small_is_full or not len(self._main_line)):
                number, entry = self._small_line.from_number(0)
                stays = self._hits[entry] > 1
                self._small_line.leave(number)
                if stays:
                    self._main.add(entry)
            else:
                number, entry = self._main_line.from_number(0)
                stays = self._hits[entry] > 0
                self._main_line.leave(number)
                self._hits[entry] -= stays
            if not stays:
                return entry
            self._join(entry)
            self._main_line.enter(self._number[entry], entry)
        return None

    def evicted(self, entry: NamedEntry) -> None:
        """Forget the entry; the ghost list keeps the key if it left from the small queue."""
        del self._number[entry], self._hits[entry]
        if entry in self._main:
            self._main.remove(entry)
            return
        self._ghost.pop(entry.key, None)
        self._ghost[entry.key] = None
        while len(self._ghost) * _SMALL_PART > len(self._number) * (_SMALL_PART - 1):
            self._ghost.popitem(last=False)

    def __contains__(self, entry: object) -> bool:
        number = self._number.get(entry, 0)  # type: ignore[call-overload]
        return number in self._small_line or number in self._main_line

    def __len__(self) -> int:
        return len(self._small_line) + len(self._main_line)

    def check_invariants(self) -> None:
        """Verify both lines, and that the entries of the main queue are resident; O(n)."""
        self._small_line.check_invariants()
        self._main_line.check_invariants()
        assert self._main <= self._number.keys(), "an entry that is gone is in the main queue"

    def _line(self, entry: NamedEntry) -> Line[NamedEntry]:
        return self._main_line if entry in self._main else self._small_line

    def _join(self, entry: NamedEntry) -> None:
        self._num_joined += 1
        self._number[entry] = self._num_joined
