"""guidellm's report (JSON): the requests of all its benchmarks, as they were sent.

Accepted in ``benchmarks[].requests.successful``, ``.errored`` and ``.incomplete``: ``request_id``;
``prompt_tokens`` or ``input_metrics.total_tokens``/``.text_tokens``; ``output_tokens`` or
``output_metrics.total_tokens``/``.text_tokens``; ``start_time``, ``request_start_time``,
``info.timings.request_start``, ``scheduler_info.request_timings.request_start``, and the same for
the end. Source: vllm-project/guidellm, reports of version 0.2 to 0.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kvsim.traces.reading import nested
from kvsim.traces.reading.results import FAILED, ID, Names, columns_of
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_NAMES: Final = Names("prompt_tokens", "output_tokens", "start_time", "end_time")
_TIMINGS: Final = (("info", "timings"), ("scheduler_info", "request_timings"))
_PATHS: Final = {
    ID: (("request_id",),),
    "prompt_tokens": (
        ("prompt_tokens",),
        ("input_metrics", "total_tokens"),
        ("input_metrics", "text_tokens"),
    ),
    "output_tokens": (
        ("output_tokens",),
        ("output_metrics", "total_tokens"),
        ("output_metrics", "text_tokens"),
    ),
    "start_time": (
        ("start_time",),
        ("request_start_time",),
        *((*path, "request_start") for path in _TIMINGS),
    ),
    "end_time": (
        ("end_time",),
        ("request_end_time",),
        *((*path, "request_end") for path in _TIMINGS),
    ),
}


class GuideLlmReader:
    """Reader of reports that hold their requests."""

    name = "guidellm"
    title = "guidellm report (JSON)"

    def detect(self, head: Head) -> bool:
        """Tell by the keys of the document."""
        if head.is_list or not head.seen_keys & {"guidellm_version", "benchmarks"}:
            return False
        return "guidellm_version" in head.seen_keys or '"generative_' in head.text

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first request arrives at zero. Places are requests, counted from 1."""
        intake.receipt.place = "request"
        benchmarks = nested.inner(nested.document(source), "benchmarks")
        if not isinstance(benchmarks, list):
            raise TraceError(f"{source.path}: a guidellm report has a list 'benchmarks'; none here")
        for batch in nested.batches(_requests(benchmarks), intake, _NAMES.keys):
            intake.add(batch, columns_of(batch, intake, _NAMES))
        if not intake.receipt.rows_read:
            raise TraceError(
                f"{source.path}: this is a guidellm report without requests (its lists "
                "benchmarks[].requests are empty): run guidellm so that it keeps all requests in "
                "its JSON report"
            )
        if len(benchmarks) > 1:
            intake.receipt.notes.append(
                f"{len(benchmarks)} benchmarks in one report, one after another as they were run"
            )
        return intake.trace(
            time_unit="s", time_column="start_time", epoch="unix", by_completion=True
        )


def _requests(benchmarks: list[Any]) -> Iterator[nested.Numbered]:
    number = 0
    for benchmark in benchmarks:
        for status in ("successful", "errored", "incomplete"):
            requests = nested.inner(benchmark, "requests", status)
            for request in requests if isinstance(requests, list) else ():
                number += 1
                row = {name: nested.first_of(request, *paths) for name, paths in _PATHS.items()}
                if status != "successful":
                    row[FAILED] = status
                yield number, row if isinstance(request, dict) else request
