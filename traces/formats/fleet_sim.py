"""fleet-sim's traces, CSV or JSON lines.

Columns are ``timestamp`` (s), ``prompt_tokens`` and ``generated_tokens``. The model
a router chose stands in ``model`` or ``selected_model``.
Source: vllm-project/semantic-router, ``src/fleet-sim``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from kvsim.traces.reading.cells import decimal_times_ns, whole_numbers
from kvsim.traces.reading.checks import count_models
from kvsim.traces.reading.tables import CsvTable, JsonLines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.batch import Batch
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_NEEDED: Final = ("timestamp", "prompt_tokens", "generated_tokens")
_MODELS: Final = ("model", "selected_model")


class FleetSimReader:
    """Reader of both containers."""

    name = "fleet-sim"
    title = "fleet-sim trace (CSV or JSON lines)"

    def detect(self, head: Head) -> bool:
        """Tell by the three names."""
        return head.csv_fields.issuperset(_NEEDED) or head.json_keys.issuperset(_NEEDED)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        if source.head().lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{"):
            lines = JsonLines(source)
            _add_all(lines.batches(intake, _NEEDED, _MODELS), intake)
            names: Iterable[str] = sorted(lines.other_keys)
        else:
            table = CsvTable(source)
            table.need(_NEEDED)
            _add_all(table.batches(intake), intake)
            names = table.header
        intake.note_ignored(names, (*_NEEDED, *_MODELS))
        return intake.trace(time_unit="s", time_column="timestamp")


def _add_all(batches: Iterable[Batch], intake: Intake) -> None:
    models: Counter[str] = Counter()
    for batch in batches:
        for name in _MODELS:
            count_models(models, batch, name)
        columns = {
            "arrival_ns": decimal_times_ns(batch, "timestamp", scale=9),
            "prompt_tokens": whole_numbers(batch, "prompt_tokens"),
            "output_tokens": intake.output_tokens(batch, "generated_tokens"),
        }
        intake.add(batch, columns)
    intake.note_models(models)
