"""Rules of allocators: all memory is somebody's, and owners own until they are released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from kvsim.policies.allocators.base import Hit, Usage
from kvsim.policies.guards.guard import Guard

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvsim.policies.allocators.base import Allocator
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence

_REFUSALS: Final = (None, "blocks", "admission rule")


class GuardedAllocator(Guard["Allocator"]):
    """An allocator whose bytes are counted; each check is O(running)."""

    kind = "allocator"

    def __init__(self, name: str, policy: Allocator, context: PolicyContext) -> None:
        super().__init__(name, policy, context)
        self.uses_oracle = bool(getattr(policy, "uses_oracle", False))
        self.relocations = getattr(policy, "relocations", None)
        self._owners: dict[int, Sequence] = {}
        num_groups = len(context.config.kv_groups)
        self._num_groups = num_groups
        self._num_slots = context.config.usable_blocks * context.config.block_size

    @property
    def num_evicted(self) -> int:
        """Cached blocks lost so far."""
        return self._policy.num_evicted

    @property
    def num_spare(self) -> int:
        """Blocks that can be handed out."""
        return self._policy.num_spare

    def num_wanted(self, sequence: Sequence, hit: Hit, tokens: int) -> int:
        """Spare blocks that a waiting sequence would take."""
        return cast("int", self.call("num_wanted", sequence, hit, tokens))

    def num_lacking(self, sequence: Sequence, tokens: int) -> int:
        """Spare blocks that a running sequence would take."""
        return cast("int", self.call("num_lacking", sequence, tokens))

    def find_hit(self, sequence: Sequence) -> Hit:
        """Longest hit; the last known token is always computed."""
        hit = cast("Hit", self.call("find_hit", sequence))
        self.require(
            0 <= hit.tokens < sequence.known,
            f"find_hit gave {hit.tokens} tokens for {sequence}; the last known one is computed",
        )
        return hit

    def refusal(self, sequence: Sequence, hit: Hit, new_tokens: int, *, idle: bool) -> str | None:
        """Why a sequence stays out."""
        reason = self.call("refusal", sequence, hit, new_tokens, idle=idle)
        self.require(
            reason in _REFUSALS,
            f"refusal gave {reason!r}; expected 'blocks', 'admission rule' or None",
        )
        return cast("str | None", reason)

    def admit(self, sequence: Sequence, hit: Hit, new_tokens: int) -> None:
        """A sequence enters."""
        self.call("admit", sequence, hit, new_tokens)
        self._owners[sequence.index] = sequence
        self._check_owners("admit")

    def grow(self, sequence: Sequence, new_tokens: int) -> bool:
        """A running sequence asks for room."""
        grown = self.call("grow", sequence, new_tokens)
        self.require(isinstance(grown, bool), f"grow gave {grown!r}; expected True or False")
        return cast("bool", grown)

    def set_keys(self, sequence: Sequence, tokens: int) -> None:
        """Content becomes findable."""
        self.call("set_keys", sequence, tokens)

    def release(self, sequence: Sequence) -> None:
        """A sequence leaves."""
        self.call("release", sequence)
        del self._owners[sequence.index]
        self._check_owners("release")

    def finish(self, sequence: Sequence) -> None:
        """A sequence ends, or is given up: it leaves."""
        self.call("finish", sequence)
        del self._owners[sequence.index]
        self._check_owners("finish")

    def takes_memory(self, sequence: Sequence, tokens: int) -> bool:
        """Whether going on takes memory."""
        return bool(self.call("takes_memory", sequence, tokens))

    def num_empty(self, sequence: Sequence, tokens: int) -> int:
        """Owned slots without a token."""
        empty = cast("int", self.call("num_empty", sequence, tokens))
        self.require(empty >= 0, f"num_empty gave {empty} for {sequence}")
        return empty

    def usage(self, running: Iterable[Sequence]) -> Usage:
        """Slots by what they hold; they must add up to the pool."""
        members = list(running)
        usage = Usage(*cast("Usage", self.call("usage", members)))
        self.require(min(usage) >= 0, f"usage has a negative count: {usage}")
        tokens = self._num_slots - usage.blank - usage.cached - usage.empty - usage.padding
        computed = self._num_groups * sum(sequence.computed for sequence in members)
        self.require(
            0 <= tokens <= computed,
            f"usage leaves {tokens} slots of {self._num_slots} for the {computed} tokens that "
            f"running sequences have computed: memory is lost, or counted twice ({usage})",
        )
        return usage

    def fragmented(self, sequence: Sequence) -> bool:
        """Whether room is enough in sum only."""
        return bool(self.call("fragmented", sequence))

    def num_held(self, sequence: Sequence) -> int:
        """Blocks that a sequence owns."""
        return cast("int", self.call("num_held", sequence))

    def owners(self) -> set[int]:
        """Indices of the sequences that own memory."""
        return set(self._owners)

    def check_invariants(self) -> None:
        """Verify the policy's own structures."""
        self.call("check_invariants")

    def _check_owners(self, method: str) -> None:
        owners = cast("set[int]", self.call("owners"))
        self.require(
            owners == set(self._owners),
            f"after {method} owners gave {sorted(owners)}; {sorted(self._owners)} own memory",
        )
