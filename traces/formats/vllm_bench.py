"""Results of ``vllm bench serve --save-result --save-detailed``: one JSON object with lists.

Accepted: ``input_lens``, ``output_lens``, ``start_times`` (s; absent before vLLM 0.11, then
``--rate`` or ``--arrivals`` says when requests arrive), ``errors``. A result without
``--save-detailed`` has no lists and is refused. Source: vllm-project/vllm, ``benchmarks/serve.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kvsim.traces.reading import nested
from kvsim.traces.reading.results import FAILED, Names, columns_of
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_LISTS: Final = ("input_lens", "output_lens", "start_times", "errors")
_MARKS: Final = frozenset({"total_input_tokens", "request_throughput"})


class VllmBenchReader:
    """Reader of detailed results."""

    name = "vllm-bench"
    title = "result of vllm bench serve --save-detailed (JSON)"

    def detect(self, head: Head) -> bool:
        """Tell by the summary's keys, with lists or without."""
        return not head.is_list and head.seen_keys.issuperset(_MARKS)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first request arrives at zero. Places are requests, counted from 1."""
        intake.receipt.place = "request"
        result = nested.document(source)
        found = {name: _list(source, result, name) for name in _LISTS}
        lists = {name: values for name, values in found.items() if values is not None}
        if not {"input_lens", "output_lens"} <= lists.keys():
            raise TraceError(
                f"{source.path}: this is a result of vllm bench serve without its requests "
                "(input_lens, output_lens): run it with --save-detailed"
            )
        lengths = {name: len(values) for name, values in lists.items()}
        if len(set(lengths.values())) > 1:
            said = ", ".join(f"{name} {count:,}" for name, count in lengths.items())
            raise TraceError(f"{source.path}: the lists differ in length: {said}")
        timed = "start_times" in lists
        if not timed:
            intake.need_arrivals("this result of vllm bench serve (it has no start_times)")
        names = Names("input_lens", "output_lens", "start_times" if timed else None)
        for batch in nested.batches(_rows(lists), intake, names.keys):
            intake.add(batch, columns_of(batch, intake, names))
        return intake.trace(time_unit="s", time_column="start_times", by_completion=True)


def _list(source: Source, result: Any, name: str) -> list[Any] | None:
    values = nested.inner(result, name)
    if values is not None and not isinstance(values, list):
        raise TraceError(f"{source.path}: {name} is not a list")
    return values


def _rows(lists: dict[str, list[Any]]) -> Iterator[nested.Numbered]:
    for number, values in enumerate(zip(*lists.values(), strict=True), 1):
        row = dict(zip(lists, values, strict=True))
        error = row.get("errors")
        row[FAILED] = str(error).strip().splitlines()[-1][:60] if error else None
        yield number, row
