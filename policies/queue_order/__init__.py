"""In which order requests wait.

The contract is :mod:`~kvsim.policies.queue_order.base`; one file an order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.guards.guard import GuardedFactory
from kvsim.policies.guards.queue_order import GuardedQueue
from kvsim.policies.queue_order.base import QueueOrder
from kvsim.policies.queue_order.fair import Fair
from kvsim.policies.queue_order.fcfs import FCFS
from kvsim.policies.queue_order.longest_prefix_match import LongestPrefixMatch
from kvsim.policies.queue_order.priority import Priority
from kvsim.policies.queue_order.sjf import ShortestJobFirst
from kvsim.policies.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.context import PolicyContext

QUEUE_ORDERS: Final[Registry[Callable[[PolicyContext], QueueOrder]]] = Registry(
    "queue",
    {
        FCFS.name: lambda _context: FCFS(),
        Priority.name: lambda _context: Priority(),
        ShortestJobFirst.name: ShortestJobFirst,
        LongestPrefixMatch.name: LongestPrefixMatch,
        Fair.name: Fair,
    },
    guard=lambda name, found: GuardedFactory(name, found, GuardedQueue),
)

__all__ = [
    "FCFS",
    "QUEUE_ORDERS",
    "Fair",
    "LongestPrefixMatch",
    "Priority",
    "QueueOrder",
    "ShortestJobFirst",
]
