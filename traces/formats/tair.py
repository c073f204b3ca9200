"""tair-kvcache's token-id trace: ``timestamp`` (Unix s) and the prompt's ``token_ids``.

Token ids become prefix ids of one token each: equal leading runs of ids are equal leading tokens,
exactly, for KV blocks of every size. Answers are not in the file: ``--output-tokens`` says them.
Source: alibaba/tair-kvcache, ``kv_cache_manager/optimizer``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.reading.batch import Ragged
from kvsim.traces.reading.cells import decimal_times_ns, id_lists
from kvsim.traces.reading.intake import IdForm
from kvsim.traces.reading.tables import JsonLines

if TYPE_CHECKING:
    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_NEEDED: Final = ("timestamp", "token_ids")
_OPTIONAL: Final = ("output_len", "ts_str", "is_tool_call")


class TairTokensReader:
    """Reader of token-id traces."""

    name = "tair-tokens"
    title = "tair-kvcache token-id trace (JSON lines)"

    def detect(self, head: Head) -> bool:
        """Tell by the keys of the first line."""
        return head.json_keys.issuperset(_NEEDED)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        lines = JsonLines(source)
        for batch in lines.batches(intake, _NEEDED, _OPTIONAL):
            ids = Ragged(*id_lists(batch, "token_ids"))
            for row in np.flatnonzero(ids.lengths == 0).tolist():
                batch.reject(row, "token_ids is empty", "token_ids is empty; a prompt has tokens")
            columns = {
                "arrival_ns": decimal_times_ns(batch, "timestamp", scale=9),
                "prompt_tokens": ids.lengths,
                "output_tokens": intake.output_tokens(batch, "output_len"),
            }
            intake.add(batch, columns, ids)
        intake.note_ignored(sorted(lines.other_keys), ())
        form = IdForm(1, covers_output=False, partial=False)
        return intake.trace(time_unit="s", time_column="timestamp", epoch="unix", id_form=form)
