"""Rules of eviction orders: keys that sort, and victims that nobody holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kvsim.policies.eviction.base import EvictionOrder
from kvsim.policies.guards.guard import BrokenRuleError

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
        except Exception as error:
            raise _broken(name, f"it raised {type(error).__name__}: {error}") from error
        if not isinstance(value, tuple) or not value:
            raise _broken(name, f"it gave {value!r}; expected a tuple that sorts")
        return value

    checked.__doc__ = key.__doc__
    return checked


def _guarded_class(name: str, found: type) -> type:
    """A class of the same name whose hooks are those of ``found``, watched."""

    class Guarded(EvictionOrder[Any]):
        needs_names = bool(getattr(found, "needs_names", False))
        uses_oracle = bool(getattr(found, "uses_oracle", False))

        def __init__(self, context: PolicyContext) -> None:
            self._candidates: set[object] = set()
            try:
                self._order = found(context)
            except Exception as error:
                what = f"it is called with one PolicyContext and raised {type(error).__name__}"
                raise _broken(name, f"{what}: {error}") from error

        def _call(self, hook: str, *arguments: object) -> Any:
            try:
                return getattr(self._order, hook)(*arguments)
            except Exception as error:
                what = f"{hook} raised {type(error).__name__}: {error}"
                raise _broken(name, what) from error

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
                raise _broken(
                    name,
                    f"victim gave {entry!r}, which may not go; {len(self._candidates)} entries may",
                )
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
                raise _broken(
                    name, f"it holds {count} candidates, {len(self._candidates)} entries may go"
                )

    Guarded.__doc__ = found.__doc__
    return Guarded


def _broken(name: str, what: str) -> BrokenRuleError:
    return BrokenRuleError(f"eviction policy {name!r} broke a rule: {what}")
