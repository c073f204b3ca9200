"""The seam of allocators: who owns KV memory, in what shape, and what of it is empty.

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

    ``longest_tokens``: the hit of the groups that were looked up first, full attention's where
    there is one. Where it is longer than ``tokens`` it is the *junction*: up to there the prefix
    is shared, but the other groups lack it.
    """

    tokens: int
    blocks: tuple[list[Block], ...]
    longest_tokens: int


class Usage(NamedTuple):
    """Slots of the pool at one instant; tokens hold what is left.

    ``blank``: free, without content; ``cached``: free, with content; ``empty``: owned, without a
    token yet; ``duplicate``: a second copy of owned content; ``padding``: owned round-up, and slots
    whose token retention dropped. ``shared``: beside the pool, what owners would take more if each
    had blocks of its own.
    """

    blank: int
    cached: int
    empty: int
    duplicate: int
    padding: int
    shared: int = 0


class Allocator(Protocol):
    """KV memory of one engine. Sequences own memory from ``admit`` to ``release``.

    ``uses_oracle``: decisions rest on true lengths. ``relocations``: what was moved, ``None``
    where nothing ever is; what it copied by a scheduling call lengthens that call's step.
    """

    uses_oracle: bool
    relocations: Relocations | None

    @property
    def num_evicted(self) -> int:
        """Cached blocks lost so far."""
        ...

    @property
    def num_spare(self) -> int:
        """Blocks (or slots, where there are none) that can be handed out, cached ones included."""
        ...

    def num_wanted(self, sequence: Sequence, hit: Hit, tokens: int) -> int:
        """Spare blocks that a waiting sequence would take in all to hold ``tokens`` tokens."""
        ...

    def num_lacking(self, sequence: Sequence, tokens: int) -> int:
        """Spare blocks that a running sequence would still take to hold ``tokens`` tokens."""
        ...

    def find_hit(self, sequence: Sequence) -> Hit:
        """Longest hit, at most all known tokens but one; takes nothing.

        It may count as a use of what was found.
        """
        ...

    def refusal(self, sequence: Sequence, hit: Hit, new_tokens: int, *, idle: bool) -> str | None:
        """Why a waiting sequence cannot enter now: ``blocks``, ``admission rule`` or ``None``."""
        ...

    def admit(self, sequence: Sequence, hit: Hit, new_tokens: int) -> None:
        """Give a sequence its hit and room for ``new_tokens`` more; nothing refuses it now."""
        ...

    def grow(self, sequence: Sequence, new_tokens: int) -> bool:
        """Give a running sequence room for more tokens; False (nothing taken) if it lacks."""
        ...

    def set_keys(self, sequence: Sequence, tokens: int) -> None:
        """The first ``tokens`` tokens have been computed: they may become findable."""
        ...

    def finish(self, sequence: Sequence) -> None:
        """A sequence ended: as :meth:`release`, but what it has computed may stay findable."""
        ...

    def release(self, sequence: Sequence) -> None:
        """Take back all that a sequence owns, as when it is preempted."""
        ...

    def takes_memory(self, sequence: Sequence, tokens: int) -> bool:
        """Whether going from ``sequence.num_computed_tokens`` to ``tokens`` tokens takes memory."""
        ...

    def num_empty(self, sequence: Sequence, tokens: int) -> int:
        """Owned slots that hold no token when ``tokens`` are computed; also just after release.

        All of them were taken when ``takes_memory`` was last true.
        """
        ...

    def usage(self, running: Iterable[Sequence]) -> Usage:
        """Slots by what they hold, ``running`` being all owners; O(running)."""
        ...

    def fragmented(self, sequence: Sequence) -> bool:
        """Whether a waiting sequence has room enough in sum, but in no single run."""
        ...

    def num_held(self, sequence: Sequence) -> int:
        """Blocks (or slots, where there are none) that a sequence owns."""
        ...

    def owners(self) -> set[int]:
        """Indices of the sequences that own memory."""
        ...

    def check_invariants(self) -> None:
        """Verify every structure; O(pool)."""
        ...
