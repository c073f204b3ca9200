"""Which sequence is preempted when memory runs out, and what happens to its KV.

A batching policy asks :mod:`~kvsim.policies.preemption.victims` for the victim. Only SGLang's
batching, ``new_token_ratio``, has a separate rule. ``mode`` decides whether the KV is recomputed or
swapped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.guards.victim import guarded_victim
from kvsim.policies.preemption.auto import Auto
from kvsim.policies.preemption.host_pool import HostPool
from kvsim.policies.preemption.mode import Judgement, PreemptionMode, Recompute, Swap, SwapGroups
from kvsim.policies.preemption.victims import (
    by_queue,
    first,
    last,
    least_progress,
    lowest_priority,
    most_blocks,
    most_remaining,
)
from kvsim.policies.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.context import PolicyContext
    from kvsim.policies.preemption.victims import Victim

VICTIMS: Final[Registry[Victim]] = Registry(
    "victim",
    {
        "by-queue": by_queue,
        "last": last,
        "first": first,
        "least-progress": least_progress,
        "most-blocks": most_blocks,
        "lowest-priority": lowest_priority,
        "most-remaining": most_remaining,
    },
    guard=guarded_victim,
)

MODES: Final[dict[str, Callable[[PolicyContext], PreemptionMode]]] = {
    "recompute": lambda _context: Recompute(),
    "swap": Swap,
    "swap-groups": SwapGroups,
    "auto": Auto,
}

__all__ = ["MODES", "VICTIMS", "HostPool", "Judgement", "PreemptionMode", "Recompute"]
