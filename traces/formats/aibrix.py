"""AIBrix's workload: ``{"timestamp": ms, "requests": [{"Prompt Length", "Output Length", ...}]}``.

Each line holds the requests that are sent at one moment.
Source: vllm-project/aibrix, ``benchmarks``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.traces.reading import nested
from kvsim.traces.reading.batch import shown
from kvsim.traces.reading.cells import decimal_times_ns, whole_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_KEYS: Final = ("timestamp", "Prompt Length", "Output Length")


class AibrixReader:
    """Reader of AIBrix workloads."""

    name = "aibrix"
    title = "AIBrix workload (JSON lines)"

    def detect(self, head: Head) -> bool:
        """Tell by the keys of the first line and of its requests."""
        outer = head.json_keys.issuperset({"timestamp", "requests"})
        return outer and bool(head.seen_keys & {"Prompt Length", "Output Length"})

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        for batch in nested.batches(_requests(source), intake, _KEYS):
            nested.require(batch, _KEYS)
            columns = {
                "arrival_ns": decimal_times_ns(batch, "timestamp", scale=6),
                "prompt_tokens": whole_numbers(batch, "Prompt Length"),
                "output_tokens": intake.output_tokens(batch, "Output Length"),
            }
            intake.add(batch, columns)
        return intake.trace(time_unit="ms", time_column="timestamp")


def _requests(source: Source) -> Iterator[nested.Numbered]:
    for number, line in nested.documents(source):
        requests = nested.inner(line, "requests")
        if isinstance(requests, list):
            for request in requests:
                if isinstance(request, dict):
                    yield number, {**request, "timestamp": line.get("timestamp")}
                else:
                    yield number, request
        elif isinstance(line, ValueError):
            yield number, line
        else:
            yield number, f"requests is {shown(requests)}"
