"""Rules that policies of one's own must keep, checked at every call."""

from kvsim.policies.guards.guard import BrokenRuleError, Guard, GuardedFactory

__all__ = ["BrokenRuleError", "Guard", "GuardedFactory"]
