"""Calls a stranger's policy, and stops it with its name where it breaks a rule of its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

from kvsim.policies.guards.raised import RAISED, raised

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.context import PolicyContext

P = TypeVar("P")


class BrokenRuleError(ValueError):
    """A policy of one's own did what no policy of its kind may; one sentence, on one line."""

    def __init__(self, sentence: str) -> None:
        super().__init__(" ".join(sentence.split()))


def broken(kind: str, name: str, what: str) -> BrokenRuleError:
    """Error that names a policy and says what it did."""
    return BrokenRuleError(f"{kind} policy {name!r} broke a rule: {what}")


def fail(kind: str, name: str, method: str, error: BaseException) -> NoReturn:
    """Stop the run with what a call raised; a broken rule of a policy below is told as it is."""
    if isinstance(error, BrokenRuleError):
        raise error
    raise broken(kind, name, f"{method} raised {raised(error)}") from error


class Guard(Generic[P]):
    """One policy under supervision; the guards of the kinds build on it."""

    kind = "policy"

    def __init__(self, name: str, policy: P, context: PolicyContext) -> None:
        self._name = name
        self._policy = policy
        self._config = context.config

    def call(self, method: str, *arguments: object) -> Any:
        """Call a method of the policy; what it raises becomes one sentence."""
        try:
            return getattr(self._policy, method)(*arguments)
        except RAISED as error:
            fail(self.kind, self._name, method, error)

    def require(self, holds: object, what: str) -> None:
        """Stop the run unless a rule holds; ``what`` says what the policy did."""
        if not holds:
            raise self.broken(what)

    def broken(self, what: str) -> BrokenRuleError:
        """Error that names the policy and says what it did."""
        return broken(self.kind, self._name, what)


class GuardedFactory(Generic[P]):
    """A stranger's class, called with the context of a run; its policy comes under a guard."""

    def __init__(
        self,
        name: str,
        factory: object,
        guard: Callable[[str, P, PolicyContext], P],
    ) -> None:
        self._name = name
        self._factory = cast("Callable[[PolicyContext], P]", factory)
        self._guard = guard
        self.uses_oracle = bool(getattr(factory, "uses_oracle", False))
        self.__doc__ = factory.__doc__

    def __call__(self, context: PolicyContext) -> P:
        """Build the policy and guard it."""
        try:
            policy = self._factory(context)
        except RAISED as error:
            raise BrokenRuleError(
                f"policy {self._name!r} cannot be built: it is called with one PolicyContext and "
                f"raised {raised(error)}"
            ) from error
        return self._guard(self._name, policy, context)
