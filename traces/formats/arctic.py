"""ArcticInference's trace: Mooncake's JSON lines without ids.

Source: snowflakedb/ArcticInference, ``benchmark/trace``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.traces.reading import mooncake_form as form
from kvsim.traces.reading.tables import JsonLines
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace


class ArcticReader:
    """Reader of the form without ids."""

    name = "arctic-inference"
    title = "ArcticInference trace: Mooncake's form without ids (JSON lines)"

    def detect(self, head: Head) -> bool:
        """Tell by the keys of the first line, and no ids in all that is seen."""
        others = form.OTHERS | {"hash_ids", "session_id", "delay", "text_input"}
        return head.json_keys.issuperset(form.NEEDED) and not head.seen_keys & others

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        lines = JsonLines(source)
        for batch in lines.batches(intake, form.NEEDED, ("output_length",)):
            if "hash_ids" in lines.other_keys:
                raise TraceError(
                    f"{source.path}: hash_ids begin after line {batch.numbers[0]}: this is no "
                    "ArcticInference trace; read it with --format aiperf"
                )
            form.add(batch, intake, ids_optional=None)
        intake.note_ignored(sorted(lines.other_keys), ())
        return intake.trace(time_unit="ms", time_column="timestamp")
