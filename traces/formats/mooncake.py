"""Mooncake's JSON lines: every request has ids of 512 prompt tokens; outputs have none.

Source: kvcache-ai/Mooncake (Qin et al., FAST 2025).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.traces.reading import mooncake_form as form
from kvsim.traces.reading.intake import IdForm
from kvsim.traces.reading.tables import JsonLines

if TYPE_CHECKING:
    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_KEYS: Final = (*form.NEEDED, "hash_ids")


class MooncakeReader:
    """Reader of Mooncake's form."""

    name = "mooncake"
    title = "Mooncake trace (JSON lines)"

    def detect(self, head: Head) -> bool:
        """Tell by the keys of the first line."""
        others = form.OTHERS | {"session_id", "delay"}  # of an aiperf schedule
        return head.json_keys.issuperset(_KEYS) and not head.json_keys & others

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        lines = JsonLines(source)
        for batch in lines.batches(intake, _KEYS, ("output_length",)):
            form.add(batch, intake, ids_optional=False)
        intake.note_ignored(sorted(lines.other_keys), ())
        return intake.trace(
            time_unit="ms",
            time_column="timestamp",
            id_form=IdForm(form.BLOCK_TOKENS, covers_output=False, partial=True),
        )
