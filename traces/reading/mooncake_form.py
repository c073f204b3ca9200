"""What Mooncake's JSON lines and their relatives have in common.

``timestamp`` (ms), ``input_length``, ``output_length``, ``hash_ids``: an id stands for 512 prompt
tokens and everything before them, so ``len(hash_ids) = ceil(input_length / 512)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.traces.reading.cells import decimal_times_ns, whole_numbers
from kvsim.traces.reading.checks import check_num_ids, optional_ids

if TYPE_CHECKING:
    from kvsim.traces.reading.batch import Batch, Ragged
    from kvsim.traces.reading.intake import Intake

BLOCK_TOKENS: Final = 512
RULE: Final = f"one id for each {BLOCK_TOKENS} tokens begun"
NEEDED: Final = ("timestamp", "input_length")
OTHERS: Final = frozenset({"chat_id", "parent_chat_id", "arrival_time_ns"})
"""Keys of formats that look alike: Qwen-Bailian and LLMServingSim have ids of 16 tokens."""


def add(batch: Batch, intake: Intake, *, ids_optional: bool | None) -> None:
    """Check a batch and hand it on; ``ids_optional`` is None where there are no ids at all."""
    prompt_tokens = whole_numbers(batch, "input_length")
    ids: Ragged | None = None
    if ids_optional is not None:
        ids = optional_ids(batch, "hash_ids")
        expected = -(-prompt_tokens // BLOCK_TOKENS)
        names = ("hash_ids", "input_length")
        check_num_ids(batch, names, ids, expected, RULE, optional=ids_optional)
    columns = {
        "arrival_ns": decimal_times_ns(batch, "timestamp", scale=6),
        "prompt_tokens": prompt_tokens,
        "output_tokens": intake.output_tokens(batch, "output_length"),
    }
    intake.add(batch, columns, ids)
