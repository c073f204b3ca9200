"""Files that hold no requests: recognised, so that the refusal can say why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source

_CDF: Final = re.compile(r"\[\s*\[\s*[0-9.eE+-]+\s*,\s*[0-9.eE+-]+\s*\]")


@dataclass(frozen=True, slots=True)
class RefusedFormat:
    """A format that is told by content and refused by name.

    Attributes
    ----------
    fits
        Whether the beginning of a file shows it.
    reason
        Why it cannot be read, and what to do.
    """

    name: str
    title: str
    fits: Callable[[Head], bool]
    reason: str

    def detect(self, head: Head) -> bool:
        """Tell by content."""
        return self.fits(head)

    def read(self, source: Source, intake: Intake) -> NoReturn:
        """Raise, always."""
        raise TraceError(f"{source.path}: this is {self.title}: {self.reason}")


LENGTH_CDF: Final = RefusedFormat(
    "length-cdf",
    "a distribution of total lengths (fleet-sim's CDF, [tokens, probability] pairs)",
    lambda head: head.is_list and _CDF.match(head.text) is not None,
    "it has no requests and does not separate prompts from outputs; make a trace from known "
    "lengths or give a file with one row a request",
)
CACHE_QUERIES: Final = RefusedFormat(
    "cache-queries",
    "a log of cache queries (tair-kvcache's optimizer trace)",
    lambda head: head.json_keys.issuperset({"timestamp_us", "keys", "query_type"}),
    "it has the requested blocks, but no output lengths (output_len is 0), and it does not say "
    "which queries belong to one request; give the token-id trace it was made from",
)
INFERENCE_PERF_SUMMARY: Final = RefusedFormat(
    "inference-perf-summary",
    "a summary of inference-perf (means and percentiles)",
    lambda head: head.json_keys.issuperset({"load_summary", "successes"}),
    "it holds no single requests; give per_request_lifecycle_metrics.json, which inference-perf "
    "writes with report.request_lifecycle.per_request: true",
)
