"""What was asked: trace formats in, one columnar :class:`Trace` out.

The door is :func:`~kvsim.traces.read.read_trace`. ``trace`` holds the columns, ``formats`` one
file a format, ``reading`` what they share, ``adjust`` changes to a trace, ``synth`` made-up ones.

The names are found on first use: the text helpers of ``common``, which all commands need, must not
bring numpy along.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kvsim.traces.adjust.max_tokens import MaxTokensRule, assume_max_tokens
    from kvsim.traces.adjust.output_ids import OUTPUT_IDS, apply_output_ids
    from kvsim.traces.adjust.spread_ties import spread_ties
    from kvsim.traces.adjust.usable import check_usable
    from kvsim.traces.bundled import bundled_path
    from kvsim.traces.formats import format_names
    from kvsim.traces.read import read_trace
    from kvsim.traces.reading.drawn import ArrivalRule, OutputRule, arrival_rule, session_start_rule
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
    "LENGTH",
    "OUTPUT_IDS",
    "STOP",
    "ArrivalRule",
    "MaxTokensRule",
    "MorePredecessors",
    "OutputRule",
    "PrefixIds",
    "Receipt",
    "Trace",
    "TraceError",
    "apply_output_ids",
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

_HOMES: Final = {
    "OUTPUT_IDS": "kvsim.traces.adjust.output_ids",
    "ArrivalRule": "kvsim.traces.reading.drawn",
    "LENGTH": "kvsim.traces.trace.trace",
    "MaxTokensRule": "kvsim.traces.adjust.max_tokens",
    "MorePredecessors": "kvsim.traces.trace.trace",
    "OutputRule": "kvsim.traces.reading.drawn",
    "PrefixIds": "kvsim.traces.trace.trace",
    "Receipt": "kvsim.traces.trace.trace",
    "STOP": "kvsim.traces.trace.trace",
    "Trace": "kvsim.traces.trace.trace",
    "TraceError": "kvsim.traces.trace.trace",
    "apply_output_ids": "kvsim.traces.adjust.output_ids",
    "arrival_rule": "kvsim.traces.reading.drawn",
    "assume_max_tokens": "kvsim.traces.adjust.max_tokens",
    "bundled_path": "kvsim.traces.bundled",
    "check_usable": "kvsim.traces.adjust.usable",
    "format_names": "kvsim.traces.formats",
    "read_trace": "kvsim.traces.read",
    "session_start_rule": "kvsim.traces.reading.drawn",
    "spread_ties": "kvsim.traces.adjust.spread_ties",
    "write_trace": "kvsim.traces.write",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
