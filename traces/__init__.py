"""What was asked: trace formats in, one columnar :class:`Trace` out."""

from kvsim.traces.bundled import bundled_path
from kvsim.traces.max_tokens import MaxTokensRule, assume_max_tokens
from kvsim.traces.read import read_trace
from kvsim.traces.readers import format_names
from kvsim.traces.trace import LENGTH, STOP, PrefixIds, Receipt, Trace, TraceError
from kvsim.traces.write import write_trace

__all__ = [
    "LENGTH",
    "STOP",
    "MaxTokensRule",
    "PrefixIds",
    "Receipt",
    "Trace",
    "TraceError",
    "assume_max_tokens",
    "bundled_path",
    "format_names",
    "read_trace",
    "write_trace",
]
