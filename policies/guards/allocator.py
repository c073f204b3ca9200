"""Rules of allocators: all memory is accounted for, and sequences hold it until their release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.allocators.base import Usage
from kvsim.policies.guards.guard import Guard, fail
from kvsim.policies.guards.raised import RAISED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvsim.policies.allocators.base import Allocator, Hit
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence

_REFUSALS: Final = (None, "blocks", "admission rule")


class GuardedAllocator(Guard["Allocator"]):
    """A plug-in allocator; its memory is counted. Each check is O(running)."""

    kind = "allocator"

    def __init__(self, name: str, policy: Allocator, context: PolicyContext) -> None:
        super().__init__(name, policy, context)
        self.uses_oracle = bool(getattr(policy, "uses_oracle", False))
        self.relocations = getattr(policy, "relocations", None)
        self._owners: dict[int, Sequence] = {}
        self._num_groups = len(self._config.kv_groups)
        self._num_slots = self._config.usable_blocks * self._config.block_size

    @property
    def num_evicted(self) -> int:
        """Cached blocks lost so far."""
        return self._policy.num_evicted

    @property
    def num_spare(self) -> int:
        """Number of blocks that can be allocated."""
        return self._policy.num_spare

    def num_wanted(self, sequence: Sequence, hit: Hit, tokens: int) -> int:
        """Return the spare blocks that a waiting sequence would take."""
        return self._count("num_wanted", sequence, hit, tokens)

    def num_lacking(self, sequence: Sequence, tokens: int) -> int:
        """Return the spare blocks that a running sequence would take."""
        return self._count("num_lacking", sequence, tokens)

    def find_hit(self, sequence: Sequence) -> Hit:
        """Return the longest hit; the last known token is always computed."""
        hit: Hit = self.call("find_hit", sequence)
        self.require(
            0 <= hit.tokens < sequence.num_tokens,
            f"find_hit gave {hit.tokens} tokens for {sequence}; the last token cannot be a hit",
        )
        return hit

    def refusal(self, sequence: Sequence, hit: Hit, new_tokens: int, *, idle: bool) -> str | None:
        """Return why a sequence cannot be admitted."""
        try:
            reason = self._policy.refusal(sequence, hit, new_tokens, idle=idle)
        except RAISED as error:
            fail(self.kind, self._name, "refusal", error)
        self.require(
            reason in _REFUSALS,
            f"refusal gave {reason!r}; expected 'blocks', 'admission rule' or None",
        )
        return reason

    def admit(self, sequence: Sequence, hit: Hit, new_tokens: int) -> None:
        """Admit a sequence."""
        self.call("admit", sequence, hit, new_tokens)
        self._owners[sequence.index] = sequence
        self._check_owners("admit")

    def grow(self, sequence: Sequence, new_tokens: int) -> bool:
        """Give a running sequence more room."""
        grown: bool = self.call("grow", sequence, new_tokens)
        self.require(isinstance(grown, bool), f"grow gave {grown!r}; expected True or False")
        return grown

    def set_keys(self, sequence: Sequence, tokens: int) -> None:
        """Make computed tokens findable."""
        self.call("set_keys", sequence, tokens)

    def release(self, sequence: Sequence) -> None:
        """Release the memory of a sequence."""
        self.call("release", sequence)
        del self._owners[sequence.index]
        self._check_owners("release")

    def finish(self, sequence: Sequence) -> None:
        """Release the memory of a sequence that finished or was aborted."""
        self.call("finish", sequence)
        del self._owners[sequence.index]
        self._check_owners("finish")

    def takes_memory(self, sequence: Sequence, tokens: int) -> bool:
        """Whether more computed tokens need more memory."""
        return bool(self.call("takes_memory", sequence, tokens))

    def num_empty(self, sequence: Sequence, tokens: int) -> int:
        """Return the allocated slots without a token."""
        return self._count("num_empty", sequence, tokens)

    def usage(self, running: Iterable[Sequence]) -> Usage:
        """Return the slots by state; they must add up to the pool."""
        members = list(running)
        usage = Usage(*self.call("usage", members))
        self.require(
            all(isinstance(count, int) and count >= 0 for count in usage),
            f"usage has a negative or broken count: {usage}",
        )
        tokens = self._num_slots - usage.blank - usage.cached - usage.empty - usage.padding
        computed = self._num_groups * sum(sequence.num_computed_tokens for sequence in members)
        self.require(
            0 <= tokens <= computed,
            f"usage leaves {tokens} slots of {self._num_slots} for the {computed} tokens that "
            f"running sequences have computed: memory is lost, or counted twice ({usage})",
        )
        return usage

    def fragmented(self, sequence: Sequence) -> bool:
        """Whether the free memory is enough only in sum."""
        return bool(self.call("fragmented", sequence))

    def num_held(self, sequence: Sequence) -> int:
        """Return the blocks that a sequence holds."""
        return self._count("num_held", sequence)

    def owners(self) -> set[int]:
        """Return the indices of the sequences that hold memory."""
        return set(self._owners)

    def check_invariants(self) -> None:
        """Verify the policy's own structures."""
        self.call("check_invariants")

    def _count(self, method: str, *arguments: object) -> int:
        count = self.call(method, *arguments)
        if not isinstance(count, int) or count < 0:
            raise self.broken(f"{method} gave {count!r}; expected a whole number >= 0")
        return count

    def _check_owners(self, method: str) -> None:
        owners: set[int] = self.call("owners")
        self.require(
            owners == set(self._owners),
            f"after {method} owners gave {sorted(owners)}; expected {sorted(self._owners)}",
        )
