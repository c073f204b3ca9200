"""How long clients wait, where the trace does not say it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.adjust.closed_loop import parse_duration_ns
from kvsim.traces.common.arguments import check_text
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from kvsim.traces.trace.trace import Trace

LONGEST_NS: Final = 2**63 // 1000 - 1
"""About 106 days: in ps it still fits 64 bits."""


def parse_timeout(text: str) -> int:
    """Read a timeout such as ``30s`` as ns; :class:`TraceError` names what is allowed."""
    check_text("--timeout", text, "30s")
    timeout_ns = parse_duration_ns(text)
    if timeout_ns is None or not 0 < timeout_ns <= LONGEST_NS:
        raise TraceError(
            f"--timeout is {text!r}; allowed are times above 0 and up to 106 days, such as 30s, "
            "500ms or 5min"
        )
    return timeout_ns


def with_timeout(trace: Trace, text: str) -> Trace:
    """Trace whose clients give up so long after their request arrives; rows that say keep theirs.

    ``trace`` is not changed.

    Raises
    ------
    TraceError
        The text is no time, or the trace says all timeouts itself.
    """
    timeout_ns = parse_timeout(text)
    if trace.timeout_ns is None:
        return replace(trace, timeout_ns=np.full(len(trace), timeout_ns, dtype=np.int64))
    if (trace.timeout_ns >= 0).all():
        raise TraceError(
            f"{trace.name}: the trace says after what time each client gives up (timeout_ns); "
            "--timeout is for requests that do not say it: leave it out"
        )
    said = trace.timeout_ns >= 0
    return replace(trace, timeout_ns=np.where(said, trace.timeout_ns, timeout_ns))
