"""What was asked: trace formats in, one columnar :class:`Trace` out.

The door is :func:`~kvsim.traces.read.read_trace`. ``trace`` holds the columns, ``formats`` one
file a format, ``reading`` what they share, ``adjust`` changes to a trace, ``synth`` made-up ones.
"""

from kvsim.traces.adjust.answers import ANSWERS, apply_answers
from kvsim.traces.adjust.max_tokens import MaxTokensRule, assume_max_tokens
from kvsim.traces.adjust.spread_ties import spread_ties
from kvsim.traces.adjust.usable import check_usable
from kvsim.traces.bundled import bundled_path
from kvsim.traces.formats import format_names
from kvsim.traces.read import read_trace
from kvsim.traces.reading.drawn.arrivals import ArrivalRule, arrival_rule, session_start_rule
from kvsim.traces.reading.drawn.output_lengths import OutputRule
from kvsim.traces.trace.trace import (
    LENGTH,
    STOP,
    MorePredecessors,
    PrefixIds,
    Receipt,
    Trace,
    TraceError,
)
from kvsim.traces.write import write_trace

__all__ = [
    "ANSWERS",
    "LENGTH",
    "STOP",
    "ArrivalRule",
    "MaxTokensRule",
    "MorePredecessors",
    "OutputRule",
    "PrefixIds",
    "Receipt",
    "Trace",
    "TraceError",
    "apply_answers",
    "arrival_rule",
    "assume_max_tokens",
    "bundled_path",
    "check_usable",
    "format_names",
    "read_trace",
    "session_start_rule",
    "spread_ties",
    "write_trace",
]
