"""Find policies of one kind by name: built-in policies, entry points, and ``module:name``.

:meth:`Registry.find` finds all three. Depending on the kind, it returns a pure function or a
factory (mostly a class). :func:`build` calls a factory with the
:class:`~kvsim.policies.context.PolicyContext` of the run.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from kvsim.policies.guards.raised import RAISED, raised
from kvsim.traces.common.arguments import check_text
from kvsim.traces.common.names import unknown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kvsim.policies.context import PolicyContext

T_co = TypeVar("T_co", covariant=True)
P = TypeVar("P")

MODULE_NAME: Final = "or module:name for your own policy"
"""End of a list of policy names in a sentence."""
GROUP: Final = "kvsim.policies"
"""Entry-point group of plug-ins; an entry is named ``kind.name``, such as ``victim.oldest``."""


class Registry(Generic[T_co]):
    """One kind of policy, such as ``batching``.

    Parameters
    ----------
    kind
        Name of the kind, in messages and in the names of entry points.
    builtins
        Policies (or factories) that are bundled, by name.
    guard
        Checks that a plug-in follows the rules of its kind (:mod:`kvsim.policies.guards`).
    """

    def __init__(
        self,
        kind: str,
        builtins: Mapping[str, T_co],
        guard: Callable[[str, object], T_co] | None = None,
    ) -> None:
        self.kind = kind
        self.builtins: Final = dict(builtins)
        self._guard = guard

    def names(self) -> list[str]:
        """Return the built-in names in their order, then those of installed plug-ins."""
        return [*self.builtins, *sorted(self._plug_ins().keys() - self.builtins.keys())]

    def find(self, name: str) -> T_co:
        """Return the policy, or the factory of it, with this name.

        Raises
        ------
        ValueError
            If no policy has this name, or the named module cannot be used.
        """
        found = self.find_unguarded(name)
        if name in self.builtins or self._guard is None:
            return cast("T_co", found)
        return self._guard(name, found)

    def find_unguarded(self, name: str) -> object:
        """Return the object of this name unchecked, with its own docstring; do not use it in a run.

        Raises
        ------
        ValueError
            As :meth:`find`.
        """
        check_text(f"{self.kind} policy", name, "module:name")
        if name in self.builtins:
            return self.builtins[name]
        plug_ins = self._plug_ins()
        if name in plug_ins or ":" in name:
            return load_policy(plug_ins.get(name, name))
        raise ValueError(unknown(f"{self.kind} policy", name, self.names(), MODULE_NAME))

    def _plug_ins(self) -> dict[str, str]:
        start = f"{self.kind}."
        return {
            entry.name.removeprefix(start): entry.value
            for entry in entry_points(group=GROUP)
            if entry.name.startswith(start)
        }


def build(factory: Callable[[PolicyContext], P], context: PolicyContext) -> P:
    """Build a policy for a run; only ``uses_oracle = True`` gets ``truth`` and ``future``."""
    if not getattr(factory, "uses_oracle", False):
        context = replace(context, truth=None, future=None)
    return factory(context)


def load_policy(value: str) -> object:
    """Import ``module:name``; the current folder is searched too, as for a script.

    Raises
    ------
    ValueError
        If the object cannot be imported or called.
    """
    check_text("policy", value, "module:name")
    module_name, _, name = value.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        found: object = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except RAISED as error:  # a plug-in's module may raise anything
        raise ValueError(f"policy {value!r} cannot be loaded: {raised(error)}") from error
    finally:
        sys.path.remove(here)
    if not callable(found):
        raise ValueError(f"policy {value!r} is {found!r}; expected a class or a function")
    return found
