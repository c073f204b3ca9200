"""In which order requests wait."""

from kvsim.policies.queue_order.base import QueueOrder
from kvsim.policies.queue_order.fcfs import FCFS
from kvsim.policies.queue_order.priority import Priority

QUEUE_ORDERS: dict[str, type[QueueOrder]] = {"fcfs": FCFS, "priority": Priority}


def make_queue(name: str) -> QueueOrder:
    """Build a queue order by name; an unknown name lists the choices."""
    if name not in QUEUE_ORDERS:
        msg = f"queue policy {name!r} is unknown; choose one of {', '.join(sorted(QUEUE_ORDERS))}"
        raise ValueError(msg)
    return QUEUE_ORDERS[name]()


__all__ = ["FCFS", "QUEUE_ORDERS", "Priority", "QueueOrder", "make_queue"]
