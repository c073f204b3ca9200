"""The contract of eviction: the facts of a cache entry, and the methods of an eviction order.

The index knows which tokens are where. The order decides which entry is evicted first. They are
separate objects. The index reports to the order what happens to its entries and which of them may
be evicted now, and it asks for the next victim. The index never reads a sort key, and an order
never reads tokens.

    inserted    referenced ...    released                 held               victim, evicted
    in use      hit at an         not in use, and no       in use again, or   chosen among the
                admission         resident child           with a child       released entries

So children are evicted before their parents under every order. Most orders are a pure function
*entry -> sort key*; the smallest key is evicted first (SGLang 0.5.23,
``mem_cache/evict_policy.py``). See :class:`~kvsim.policies.eviction.keyed.KeyedOrder`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable


class Entry(Protocol):
    """Facts that orders use; times are ticks of the index's own clock."""

    created: int
    """Time at which the entry was made; the upper part of a split entry is new."""
    last_access: int
    """Time at which a block's last user released it (as in vLLM), or of a node's last lookup."""
    num_hits: int
    """Number of uses; resumes do not count.

    Block: its insertion, and the admissions that hit it. Node: the insertions that went through
    it or ended at it.
    """
    priority: int
    """Highest priority of the requests that used it; a higher value is kept longer."""

    @property
    def num_tokens(self) -> int:
        """Number of tokens that it holds."""
        ...

    @property
    def past(self) -> int:
        """Number of tokens before it in its chain."""
        ...


class NamedEntry(Entry, Protocol):
    """A block of a hash chain; its key stays valid after the block is evicted."""

    key: Hashable | None
    """``(KV group, key of the content)``."""
    last_user: int
    """Largest index of the requests that used the block."""


SortKey = tuple[int, ...]
"""The entry with the smallest key is evicted first."""

EvictionKey = Callable[[Entry], SortKey]

E = TypeVar("E", bound=Entry)


class EvictionOrder(ABC, Generic[E]):
    """The entries of one index; chooses which evictable entry is evicted next.

    ``needs_names``: the order works only on :class:`NamedEntry`. ``uses_oracle``: the order reads
    future requests.
    """

    needs_names: ClassVar[bool] = False
    uses_oracle: ClassVar[bool] = False

    @abstractmethod
    def released(self, entry: E) -> None:
        """Note that the entry may be evicted from now on; a repeated call means changed facts."""

    @abstractmethod
    def held(self, entry: E) -> None:
        """Note that the entry may not be evicted; the call is allowed if it could not before."""

    @abstractmethod
    def victim(self) -> E | None:
        """Remove and return the next entry to evict; ``None`` if no entry may be evicted."""

    def inserted(self, entry: E) -> None:
        """Note that the entry was inserted; it is in use."""

    def referenced(self, entry: E) -> None:
        """Note that an admission hit the entry: one access. Its facts are already updated."""

    def split(self, entry: E, upper: E) -> None:
        """Note that the new entry ``upper`` took the first part of ``entry`` (trees)."""

    def evicted(self, entry: E) -> None:
        """Note that the victim has left the index; its facts are those it had."""

    @abstractmethod
    def __contains__(self, entry: object) -> bool:
        """Whether an entry may be evicted."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of entries that may be evicted."""

    def check_invariants(self) -> None:
        """Verify the structure against the entries' facts; O(entries)."""
