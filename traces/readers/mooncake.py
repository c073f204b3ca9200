"""Mooncake's JSON lines: ``timestamp`` (ms), ``input_length``, ``output_length``, ``hash_ids``.

An id stands for 512 prompt tokens and everything before them, so
``len(hash_ids) = ceil(input_length / 512)``; answers have no ids.
Source: kvcache-ai/Mooncake (Qin et al., FAST 2025).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.readers.batch import Ragged
from kvsim.traces.readers.cells import decimal_times_ns, id_lists, whole_numbers
from kvsim.traces.readers.intake import IdForm
from kvsim.traces.readers.text import JsonLines

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.readers.base import Head
    from kvsim.traces.readers.batch import Batch
    from kvsim.traces.readers.intake import Intake
    from kvsim.traces.source import Source
    from kvsim.traces.trace import Trace

_BLOCK_TOKENS: Final = 512
_KEYS: Final = ("timestamp", "input_length", "output_length", "hash_ids")
_OTHER_FORMATS: Final = frozenset({"chat_id", "parent_chat_id"})  # Qwen-Bailian: 16-token ids


class MooncakeReader:
    """Reader of Mooncake's form."""

    name = "mooncake"
    title = "Mooncake trace (JSON lines)"

    def detect(self, head: Head) -> bool:
        """Tell by the four keys of the first line."""
        return head.json_keys.issuperset(_KEYS) and not head.json_keys & _OTHER_FORMATS

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        lines = JsonLines(source)
        for batch in lines.batches(intake, _KEYS):
            prompt_tokens = whole_numbers(batch, "input_length")
            ids = Ragged(*id_lists(batch, "hash_ids"))
            _check_ids(batch, prompt_tokens, ids)
            columns = {
                "arrival_ns": decimal_times_ns(batch, "timestamp", scale=6),
                "prompt_tokens": prompt_tokens,
                "output_tokens": whole_numbers(batch, "output_length"),
            }
            intake.add(batch, columns, ids)
        intake.note_ignored(sorted(lines.other_keys), ())
        return intake.trace(
            time_unit="ms",
            time_column="timestamp",
            id_form=IdForm(_BLOCK_TOKENS, covers_output=False),
        )


def _check_ids(batch: Batch, prompt_tokens: NDArray[np.int64], ids: Ragged) -> None:
    """Reject rows whose number of ids contradicts their length."""
    expected = -(-prompt_tokens // _BLOCK_TOKENS)
    for row in np.flatnonzero(ids.lengths != expected).tolist():
        batch.reject(
            row,
            "hash_ids contradict input_length",
            f"hash_ids has {ids.lengths[row]} ids for input_length {prompt_tokens[row]}; allowed "
            f"are exactly {expected[row]} (one id for each {_BLOCK_TOKENS} tokens begun)",
        )
