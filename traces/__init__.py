"""What was asked: trace formats in, one columnar :class:`Trace` out."""

from kvsim.traces.trace import PrefixIds, Receipt, Trace, TraceError

__all__ = ["PrefixIds", "Receipt", "Trace", "TraceError"]
