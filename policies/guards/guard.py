"""Calls a plug-in policy; if it breaks a rule of its kind, stops the run with its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

from kvsim.policies.guards.raised import RAISED, raised

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.context import PolicyContext

P = TypeVar("P")


class BrokenRuleError(ValueError):
    """A plug-in policy broke a rule of its kind; the message is one sentence on one line."""

    def __init__(self, sentence: str) -> None:
        super().__init__(" ".join(sentence.split()))


def broken(kind: str, name: str, what: str) -> BrokenRuleError:
    """Return the error that names a policy and what it did."""
    return BrokenRuleError(f"{kind} policy {name!r} broke a rule: {what}")


def fail(kind: str, name: str, method: str, error: BaseException) -> NoReturn:
    """Stop the run with what a call raised; a rule broken by an inner policy is raised as is."""
    if isinstance(error, BrokenRuleError):
        raise error
    raise broken(kind, name, f"{method} raised {raised(error)}") from error


class Guard(Generic[P]):
    """One guarded policy; base class of the guards of each kind."""

    kind = "policy"

    def __init__(self, name: str, policy: P, context: PolicyContext) -> None:
        self._name = name
        self._policy = policy
        self._config = context.config

    def call(self, method: str, *arguments: object) -> Any:
        """Call a method of the policy; an exception becomes one sentence."""
        try:
            return getattr(self._policy, method)(*arguments)
        except RAISED as error:
            fail(self.kind, self._name, method, error)

    def require(self, holds: object, what: str) -> None:
        """Stop the run unless ``holds`` is true; ``what`` says what the policy did."""
        if not holds:
            raise self.broken(what)

    def broken(self, what: str) -> BrokenRuleError:
        """Return the error that names the policy and what it did."""
        return broken(self.kind, self._name, what)


class GuardedFactory(Generic[P]):
    """A plug-in's class, called with the context of a run; the built policy gets a guard."""

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
                f"policy {self._name!r} cannot be built: called with one PolicyContext, it "
                f"raised {raised(error)}"
            ) from error
        return self._guard(self._name, policy, context)
