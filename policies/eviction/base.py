"""What a cache entry tells about its use, and what an eviction order has to do.

The index (which tokens are where) and the order (who goes first) are separate objects: the index
tells what happens to its entries and which of them may go now, and takes the next victim; it never
looks at a key, and an order never looks at tokens.

    inserted    referenced ...    released                 held               victim, evicted
    in use      hit at an         nobody uses it, and      in use again, or   chosen among the
                admission         nothing hangs below      something hangs    released ones
                                                           below it

So children leave before parents under every order. Most orders are a pure function *entry -> sort
key*, smallest first (SGLang 0.5.23, ``mem_cache/evict_policy.py``); see
:class:`~kvsim.policies.eviction.keyed.KeyedOrder`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable


class Entry(Protocol):
    """Facts that orders are made of; times are ticks of the index's own clock."""

    created: int
    """When the entry came to be; the upper part of a split one is new."""
    last_access: int
    """Of a block: when its last user gave it up (as in vLLM); of a tree's node: its last lookup."""
    num_hits: int
    """Its insertion and the admissions that hit it (blocks), or the insertions that went through
    or ended at it (nodes); resumes do not count.
    """
    priority: int
    """Highest priority of the requests that used it; more is kept longer."""

    @property
    def num_tokens(self) -> int:
        """Tokens that it holds."""
        ...

    @property
    def past(self) -> int:
        """Tokens before it in its chain."""
        ...


class NamedEntry(Entry, Protocol):
    """A block of a hash chain, whose content has a name that outlives it."""

    key: Hashable | None
    """``(KV group, key of the content)``."""
    last_user: int
    """Largest index of the requests that used it."""


SortKey = tuple[int, ...]
"""Smallest is evicted first."""

EvictionKey = Callable[[Entry], SortKey]

E = TypeVar("E", bound=Entry)


class EvictionOrder(ABC, Generic[E]):
    """Entries of one index, and which of those that may go is the next to go.

    ``needs_names``: works on a :class:`NamedEntry` only. ``uses_oracle``: reads the future.
    """

    needs_names: ClassVar[bool] = False
    uses_oracle: ClassVar[bool] = False

    @abstractmethod
    def released(self, entry: E) -> None:
        """An entry may go from now on; once more: its facts may have changed."""

    @abstractmethod
    def held(self, entry: E) -> None:
        """An entry may not go any longer; no harm if it could not before."""

    @abstractmethod
    def victim(self) -> E | None:
        """Take out the next one of those that may go; ``None`` where there is none."""

    def inserted(self, entry: E) -> None:
        """An entry came in; it is in use."""

    def referenced(self, entry: E) -> None:
        """An admission hit the entry: one access. Its facts tell already."""

    def split(self, entry: E, upper: E) -> None:
        """``upper``, new, has the first part of ``entry`` now; ``entry`` keeps the rest (trees)."""

    def evicted(self, entry: E) -> None:
        """The victim has left the index; its facts are those it had."""

    @abstractmethod
    def __contains__(self, entry: object) -> bool:
        """Whether an entry may go."""

    @abstractmethod
    def __len__(self) -> int:
        """How many may go."""

    def check_invariants(self) -> None:
        """Verify the structure against the entries' facts; O(entries)."""
