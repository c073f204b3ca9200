"""Rules that policies of one's own must keep, checked at every call.

The door is :mod:`~kvsim.policies.guards.guard`; one file a kind of policy.
"""

from kvsim.policies.guards.guard import BrokenRuleError, Guard, GuardedFactory

__all__ = ["BrokenRuleError", "Guard", "GuardedFactory"]
