"""LLMServingSim's JSON lines: block ids, token ids, or what a real engine measured.

- ``*.blocks16.jsonl``: ``hash_ids`` of 16 prompt tokens each, the last maybe a partial block, and
  ``output_hash_ids`` from the first block that holds an answer token on. Together:

      tokens      |prompt ........|prompt + answer|answer ........|
      hash_ids    |------ 0 ------|--- 1 (part) --|
      output_...                  |------ 2 ------|------ 3 ------|
      here        |------ 0 ------|------ 2 ------|------ 3 ------|
- source form: ``input_toks``, ``output_toks`` and maybe the tokens themselves. Token ids become
  prefix ids of one token each: equal leading runs of ids are equal leading tokens, exactly.
- measured ``requests.jsonl``: ``arrival_time`` in Unix seconds.

Source: casys-kaist/LLMServingSim (Cho et al., IISWC 2024).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.reading.batch import Ragged
from kvsim.traces.reading.cells import decimal_times_ns, id_lists, texts, whole_numbers
from kvsim.traces.reading.checks import check_num_ids, optional_ids
from kvsim.traces.reading.intake import IdForm
from kvsim.traces.reading.tables import JsonLines

if TYPE_CHECKING:
    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.batch import Batch
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_BLOCK_TOKENS: Final = 16
_BLOCKS: Final = ("arrival_time_ns", "input_length", "output_length", "hash_ids", "output_hash_ids")
_SOURCE: Final = ("arrival_time_ns", "input_toks", "output_toks")
_TOKENS: Final = ("input_tok_ids", "output_tok_ids")
_MEASURED: Final = ("arrival_time", "input_toks", "output_toks")
_CLOCKS: Final = ("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")


class LlmServingSimBlocksReader:
    """Reader of the form with block ids."""

    name = "llmservingsim-blocks"
    title = "LLMServingSim with ids of 16 tokens over prompt and output (JSON lines)"

    def detect(self, head: Head) -> bool:
        """Tell by the keys of the first line."""
        return head.json_keys.issuperset(_BLOCKS[:4])

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        lines = JsonLines(source)
        for batch in lines.batches(intake, _BLOCKS):
            prompt_tokens = whole_numbers(batch, "input_length")
            output_tokens = intake.output_tokens(batch, "output_length")
            prompt_ids = Ragged(*id_lists(batch, "hash_ids"))
            output_ids = Ragged(*id_lists(batch, "output_hash_ids"))
            full = prompt_tokens // _BLOCK_TOKENS
            begun = -(-prompt_tokens // _BLOCK_TOKENS)
            rule = f"one id for each {_BLOCK_TOKENS} tokens begun"
            check_num_ids(batch, ("hash_ids", "input_length"), prompt_ids, begun, rule)
            rest = -(-(prompt_tokens + output_tokens) // _BLOCK_TOKENS) - full
            rule = "from the first block that has an output token"
            check_num_ids(batch, ("output_hash_ids", "output_length"), output_ids, rest, rule)
            columns = {
                "arrival_ns": decimal_times_ns(batch, "arrival_time_ns", scale=0),
                "prompt_tokens": prompt_tokens,
                "output_tokens": output_tokens,
            }
            intake.add(batch, columns, prompt_ids.clip(full).joined_with(output_ids))
        intake.note_ignored(sorted(lines.other_keys), ())
        return intake.trace(
            time_unit="ns",
            time_column="arrival_time_ns",
            id_form=IdForm(_BLOCK_TOKENS, covers_output=True, partial=True),
        )


class LlmServingSimReader:
    """Reader of the source form."""

    name = "llmservingsim"
    title = "LLMServingSim's source form, with token ids or without (JSON lines)"

    def detect(self, head: Head) -> bool:
        """Tell by the keys of the first line."""
        return head.json_keys.issuperset(_SOURCE)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        lines = JsonLines(source)
        with_tokens = with_answers = False
        for batch in lines.batches(intake, _SOURCE, _TOKENS):
            with_tokens |= "input_tok_ids" in batch.columns
            with_answers |= "output_tok_ids" in batch.columns
            columns = {
                "arrival_ns": decimal_times_ns(batch, "arrival_time_ns", scale=0),
                "prompt_tokens": whole_numbers(batch, "input_toks"),
                "output_tokens": intake.output_tokens(batch, "output_toks"),
            }
            tokens = []
            for name, length in zip(_TOKENS, _SOURCE[1:], strict=True):
                ids = optional_ids(batch, name)
                expected = columns["prompt_tokens" if length == "input_toks" else "output_tokens"]
                rule = "one for each token"
                check_num_ids(batch, (name, length), ids, expected, rule, optional=True)
                tokens.append(ids)
            _check_answers_follow(batch, *tokens)
            intake.add(batch, columns, tokens[0].joined_with(tokens[1]))
        intake.note_ignored(sorted(lines.other_keys), ())
        form = IdForm(1, covers_output=with_answers, partial=False) if with_tokens else None
        return intake.trace(time_unit="ns", time_column="arrival_time_ns", id_form=form)


class LlmServingSimMeasuredReader:
    """Reader of ``requests.jsonl``."""

    name = "llmservingsim-measured"
    title = "requests of a real engine measured for LLMServingSim (JSON lines)"

    def detect(self, head: Head) -> bool:
        """Tell by the keys of the first line."""
        return head.json_keys.issuperset(_MEASURED)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        lines = JsonLines(source)
        for batch in lines.batches(intake, _MEASURED, ("request_id", *_CLOCKS)):
            columns = {
                "arrival_ns": decimal_times_ns(batch, "arrival_time", scale=9),
                "prompt_tokens": whole_numbers(batch, "input_toks"),
                "output_tokens": intake.output_tokens(batch, "output_toks"),
            }
            ids = {"ids": texts(batch, "request_id")} if "request_id" in batch.columns else {}
            intake.add(batch, {**columns, **ids})
        intake.note_ignored(sorted(lines.other_keys), ())
        return intake.trace(
            time_unit="s", time_column="arrival_time", epoch="unix", by_completion=True
        )


def _check_answers_follow(batch: Batch, prompt: Ragged, answer: Ragged) -> None:
    """Reject rows with tokens of the answer alone: they would stand in the prompt's place."""
    for row in np.flatnonzero((answer.lengths > 0) & (prompt.lengths == 0)).tolist():
        batch.reject(
            row,
            "output_tok_ids without input_tok_ids",
            "output_tok_ids stand without input_tok_ids; allowed are both, or the prompt's alone",
        )
