"""Rules of eviction orders: keys that sort, and victims that nobody holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from kvsim.policies.eviction.base import EvictionOrder
from kvsim.policies.guards.guard import BrokenRuleError
from kvsim.policies.guards.raised import RAISED, raised

if TYPE_CHECKING:
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.eviction.base import Entry, EvictionKey, SortKey


def guarded_eviction(name: str, found: object) -> Any:
    """A stranger's sort key or class, under supervision."""
    return _guarded_class(name, found) if isinstance(found, type) else _guarded_key(name, found)


def _guarded_key(name: str, found: object) -> EvictionKey:
    key = cast("EvictionKey", found)

    def checked(entry: Entry) -> SortKey:
        try:
            value = key(entry)
        except RAISED as error:
            raise _broken(name, f"it raised {raised(error)}") from error
        if not isinstance(value, tuple) or not value:
            raise _broken(name, f"it gave {value!r}; expected a tuple that sorts")
        return value

    checked.__doc__ = key.__doc__
    return checked


class _GuardedOrder(EvictionOrder[Any]):
    """A stranger's order, watched; each stranger has a subclass that says whose it is."""

    _name: ClassVar[str]
    _found: ClassVar[type]

    def __init__(self, context: PolicyContext) -> None:
        self._candidates: set[object] = set()
        try:
            self._order = self._found(context)
        except RAISED as error:
            what = f"it is called with one PolicyContext and raised {raised(error)}"
            raise _broken(self._name, what) from error

    def _call(self, hook: str, *arguments: object) -> Any:
        try:
            return getattr(self._order, hook)(*arguments)
        except RAISED as error:
            raise _broken(self._name, f"{hook} raised {raised(error)}") from error

    def released(self, entry: Any) -> None:
        self._candidates.add(entry)
        self._call("released", entry)

    def held(self, entry: Any) -> None:
        self._candidates.discard(entry)
        self._call("held", entry)

    def victim(self) -> Any:
        entry = self._call("victim")
        if (entry is None) != (not self._candidates) or (
            entry is not None and entry not in self._candidates
        ):
            num_allowed = len(self._candidates)
            what = f"victim gave {entry!r}, which may not go; {num_allowed} entries may"
            raise _broken(self._name, what)
        self._candidates.discard(entry)
        return entry

    def inserted(self, entry: Any) -> None:
        self._call("inserted", entry)

    def referenced(self, entry: Any) -> None:
        self._call("referenced", entry)

    def extended(self, entry: Any) -> None:
        self._call("extended", entry)

    def split(self, entry: Any, upper: Any) -> None:
        self._call("split", entry, upper)

    def evicted(self, entry: Any) -> None:
        self._call("evicted", entry)

    def __contains__(self, entry: object) -> bool:
        return entry in self._candidates

    def __len__(self) -> int:
        return len(self._candidates)

    def check_invariants(self) -> None:
        self._call("check_invariants")
        count = self._call("__len__")
        if count != len(self._candidates):
            what = f"it holds {count} candidates, {len(self._candidates)} entries may go"
            raise _broken(self._name, what)


def _guarded_class(name: str, found: type) -> type:
    """A class whose hooks are those of ``found``, watched."""
    return type(
        "Guarded",
        (_GuardedOrder,),
        {
            "__doc__": found.__doc__,
            "_name": name,
            "_found": found,
            "needs_names": bool(getattr(found, "needs_names", False)),
            "uses_oracle": bool(getattr(found, "uses_oracle", False)),
        },
    )


def _broken(name: str, what: str) -> BrokenRuleError:
    return BrokenRuleError(f"eviction policy {name!r} broke a rule: {what}")
