"""Rules that plug-in policies must keep, checked at every call.

:mod:`~kvsim.policies.guards.guard` has the base class. Each kind of policy has one file.
"""

from kvsim.policies.guards.guard import BrokenRuleError, Guard, GuardedFactory

__all__ = ["BrokenRuleError", "Guard", "GuardedFactory"]
