"""The rule of victims: the chosen sequence must run."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from kvsim.policies.guards.guard import broken, fail
from kvsim.policies.guards.raised import RAISED

if TYPE_CHECKING:
    from collections.abc import Sequence as SequenceOf

    from kvsim.policies.batching.base import SchedulerState
    from kvsim.policies.preemption.victims import Victim
    from kvsim.policies.sequence import Sequence


def guarded_victim(name: str, victim: object) -> Victim:
    """Put a plug-in's function under a guard that checks its result."""
    function = cast("Victim", victim)

    def checked(running: SequenceOf[Sequence], state: SchedulerState) -> Sequence:
        try:
            chosen = function(running, state)
        except RAISED as error:
            fail("victim", name, "it", error)
        if not any(sequence is chosen for sequence in running):
            raise broken("victim", name, f"it chose {chosen!r}, which does not run")
        return chosen

    checked.__doc__ = function.__doc__
    return checked
