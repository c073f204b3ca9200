"""The contract of allocators: which sequence holds which KV memory, and how much of it is empty.

Amounts of memory are *slots*: room for one token in one KV group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvsim.policies.allocators.block_pool import Block
    from kvsim.policies.allocators.relocations import Relocations
    from kvsim.policies.sequence import Sequence


class Hit(NamedTuple):
    """Leading tokens found in the cache and, for each KV group, the blocks that hold them.

    ``longest_tokens``: the hit of the groups that were looked up first (full attention, if there is
    such a group). If it is longer than ``tokens``, it is the *junction*: the prefix is shared up to
    there, but the other groups do not have it.
    """

    tokens: int
    blocks: tuple[list[Block], ...]
    longest_tokens: int


class Usage(NamedTuple):
    """Slots of the pool at one instant; all other slots hold tokens.

    * ``blank``: free, without content;
    * ``cached``: free, with content;
    * ``empty``: allocated, without a token yet;
    * ``duplicate``: a second copy of content that a sequence holds;
    * ``padding``: allocated round-up, and slots with a token that retention dropped;
    * ``shared``: not part of the pool. It is the additional memory that sequences would take if
      they shared no blocks.
    """

    blank: int
    cached: int
    empty: int
    duplicate: int
    padding: int
    shared: int = 0


class Allocator(Protocol):
    """KV memory of one engine. A sequence holds memory from ``admit`` to ``release``.

    ``uses_oracle``: decisions use true lengths. ``relocations``: counts of copied memory, ``None``
    if the allocator never copies. Copies that a scheduling call makes lengthen the step of that
    call.
    """

    uses_oracle: bool
    relocations: Relocations | None

    @property
    def num_evicted(self) -> int:
        """Number of cached blocks evicted so far."""
        ...

    @property
    def num_spare(self) -> int:
        """Number of blocks (slots, without blocks) that can be allocated, including cached ones."""
        ...

    def num_wanted(self, sequence: Sequence, hit: Hit, tokens: int) -> int:
        """Return the spare blocks that a waiting sequence needs in total for ``tokens`` tokens."""
        ...

    def num_lacking(self, sequence: Sequence, tokens: int) -> int:
        """Return the spare blocks that a running sequence still needs for ``tokens`` tokens."""
        ...

    def find_hit(self, sequence: Sequence) -> Hit:
        """Return the longest hit, at most all known tokens but one; takes no memory.

        The lookup may count as a use of the blocks found.
        """
        ...

    def refusal(self, sequence: Sequence, hit: Hit, new_tokens: int, *, idle: bool) -> str | None:
        """Return why a waiting sequence cannot be admitted: ``blocks`` or ``admission rule``.

        The result is ``None`` if it can be admitted.
        """
        ...

    def admit(self, sequence: Sequence, hit: Hit, new_tokens: int) -> None:
        """Give a sequence its hit and room for ``new_tokens`` more; only without a refusal."""
        ...

    def grow(self, sequence: Sequence, new_tokens: int) -> bool:
        """Give a running sequence room for more tokens; return False (no change) without room."""
        ...

    def set_keys(self, sequence: Sequence, tokens: int) -> None:
        """Note that the first ``tokens`` tokens are computed: their blocks may become findable."""
        ...

    def finish(self, sequence: Sequence) -> None:
        """Release a finished sequence; unlike :meth:`release`, its tokens may stay findable."""
        ...

    def release(self, sequence: Sequence) -> None:
        """Free all memory of a sequence, for example when it is preempted."""
        ...

    def takes_memory(self, sequence: Sequence, tokens: int) -> bool:
        """Whether going from ``sequence.num_computed_tokens`` to ``tokens`` tokens takes memory."""
        ...

    def num_empty(self, sequence: Sequence, tokens: int) -> int:
        """Return the slots without a token once ``tokens`` tokens are computed.

        The call is also valid just after a release. All these slots were taken when
        ``takes_memory`` was last true.
        """
        ...

    def usage(self, running: Iterable[Sequence]) -> Usage:
        """Return the slots by state; ``running`` are all that hold memory; O(running)."""
        ...

    def fragmented(self, sequence: Sequence) -> bool:
        """Whether the free memory is enough for a waiting sequence in sum, but in no single run."""
        ...

    def num_held(self, sequence: Sequence) -> int:
        """Return the blocks (or slots, without blocks) that a sequence holds."""
        ...

    def owners(self) -> set[int]:
        """Return the indices of the sequences that hold memory."""
        ...

    def check_invariants(self) -> None:
        """Verify every structure; O(pool)."""
        ...
