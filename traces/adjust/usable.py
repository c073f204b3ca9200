"""What a trace must have before an engine can replay it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvsim.traces.common.arguments import check_flags
from kvsim.traces.common.text import counted
from kvsim.traces.trace.columns import check_trace
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from kvsim.traces.trace.trace import Trace


def check_usable(trace: Trace, *, need_times: bool = True) -> None:
    """Raise :class:`TraceError` where requests lack an answer or a time, or columns are wrong.

    Traces read for statistics (``keep_unusable``) may. Turns without a time of their own may:
    each comes a delay after the answer before it (:mod:`kvsim.traces.adjust.closed_loop`). Users,
    who take one session after the other, need no times.
    """
    check_trace(trace, "a Trace, or the path of a file of one")
    check_flags(need_times=need_times)
    empty = int(np.count_nonzero(trace.output_tokens < 1))
    if empty:
        raise TraceError(
            f"{trace.name}: {counted(empty, 'request has', 'requests have')} no output (0 tokens) "
            "and cannot be simulated; "
            "read the trace without keep_unusable, and leave such rows out with --on-bad-row skip"
        )
    if need_times and trace.receipt is not None and not trace.receipt.has_times:
        raise TraceError(
            f"{trace.name}: nothing says when requests arrive: say it with --rate or --arrivals, "
            "or close the loop with --users"
        )
