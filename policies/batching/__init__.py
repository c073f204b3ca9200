"""How a step is composed and which requests are admitted.

The contract is :mod:`~kvsim.policies.batching.base`. Each rule has one file. Most rules share the
scheduling loop and the admission of ``mixed_running_first``. Several rules use these parts:
``swapping`` preempts and swaps in; ``promises`` and ``predicted_room`` are conditions of admission.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.batching.base import (
    Admission,
    Batching,
    Dropped,
    Item,
    Preemption,
    ScheduledStep,
    SchedulerState,
)
from kvsim.policies.batching.iteration_level import IterationLevel
from kvsim.policies.batching.mixed_running_first import MixedRunningFirst
from kvsim.policies.batching.new_token_ratio import NewTokenRatio
from kvsim.policies.batching.no_evict import NoEvict
from kvsim.policies.batching.prefill_first import PrefillFirst
from kvsim.policies.batching.static import Static
from kvsim.policies.batching.token_budget import TokenBudget
from kvsim.policies.guards.batching import GuardedBatching
from kvsim.policies.guards.guard import GuardedFactory
from kvsim.policies.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.context import PolicyContext


def _prefill_first(context: PolicyContext) -> Batching:
    """The rule of SGLang or of vLLM v0."""
    if context.config.batching.prefill_rule == "watermark":
        return PrefillFirst()
    return NewTokenRatio(context)


BATCHING: Final[Registry[Callable[[PolicyContext], Batching]]] = Registry(
    "batching",
    {
        MixedRunningFirst.name: lambda _context: MixedRunningFirst(),
        IterationLevel.name: lambda _context: IterationLevel(),
        PrefillFirst.name: _prefill_first,
        Static.name: lambda _context: Static(),
        TokenBudget.name: lambda _context: TokenBudget(),
        NoEvict.name: lambda _context: NoEvict(),
    },
    guard=lambda name, found: GuardedFactory(name, found, GuardedBatching),
)

__all__ = [
    "BATCHING",
    "Admission",
    "Batching",
    "Dropped",
    "Item",
    "IterationLevel",
    "MixedRunningFirst",
    "NewTokenRatio",
    "NoEvict",
    "Preemption",
    "PrefillFirst",
    "ScheduledStep",
    "SchedulerState",
    "Static",
    "TokenBudget",
]
