"""Rules of eviction orders: keys can be sorted, and victims are not in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kvsim.policies.eviction.base import EvictionOrder
from kvsim.policies.guards.guard import Guard, GuardedFactory, broken, fail
from kvsim.policies.guards.raised import RAISED

if TYPE_CHECKING:
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.eviction.base import Entry, EvictionKey, SortKey


def guarded_eviction(name: str, found: object) -> Any:
    """Put a plug-in's sort key or class under a guard."""
    return GuardedOrders(name, found) if isinstance(found, type) else _guarded_key(name, found)


def _guarded_key(name: str, found: object) -> EvictionKey:
    key = cast("EvictionKey", found)

    def checked(entry: Entry) -> SortKey:
        try:
            value = key(entry)
        except RAISED as error:
            fail("eviction", name, "it", error)
        if not isinstance(value, tuple) or not value:
            raise broken("eviction", name, f"it gave {value!r}; expected a tuple that sorts")
        return value

    checked.__doc__ = key.__doc__
    return checked


class GuardedOrders(GuardedFactory[Any]):
    """A plug-in's class of eviction orders."""

    def __init__(self, name: str, found: type) -> None:
        super().__init__(name, found, _GuardedOrder)
        self.needs_names = bool(getattr(found, "needs_names", False))


class _GuardedOrder(Guard["EvictionOrder[Any]"], EvictionOrder[Any]):
    """A plug-in eviction order; the guard knows its candidates."""

    kind = "eviction"

    def __init__(self, name: str, policy: EvictionOrder[Any], context: PolicyContext) -> None:
        super().__init__(name, policy, context)
        self._candidates: set[object] = set()

    def released(self, entry: Any) -> None:
        self._candidates.add(entry)
        self.call("released", entry)

    def held(self, entry: Any) -> None:
        self._candidates.discard(entry)
        self.call("held", entry)

    def victim(self) -> Any:
        entry = self.call("victim")
        if (entry is None) != (not self._candidates) or (
            entry is not None and entry not in self._candidates
        ):
            num_allowed = len(self._candidates)
            raise self.broken(f"victim gave {entry!r}, which may not be evicted; {num_allowed} may")
        self._candidates.discard(entry)
        return entry

    def inserted(self, entry: Any) -> None:
        self.call("inserted", entry)

    def referenced(self, entry: Any) -> None:
        self.call("referenced", entry)

    def split(self, entry: Any, upper: Any) -> None:
        self.call("split", entry, upper)

    def evicted(self, entry: Any) -> None:
        self.call("evicted", entry)

    def __contains__(self, entry: object) -> bool:
        return entry in self._candidates

    def __len__(self) -> int:
        return len(self._candidates)

    def check_invariants(self) -> None:
        self.call("check_invariants")
        count = self.call("__len__")
        self.require(
            count == len(self._candidates),
            f"it holds {count} candidates, {len(self._candidates)} entries may be evicted",
        )
