"""Qwen-Bailian's JSON lines: conversations by ``chat_id`` and ``parent_chat_id`` (-1 = root).

``timestamp`` is in seconds; an id stands for 16 prompt tokens and everything before them,
``len(hash_ids) = ceil(input_length / 16)``. Rows may lack ids (they are anonymous then).
Source: Wang et al., "KVCache Cache in the Wild", USENIX ATC 2025.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.common.text import counted
from kvsim.traces.reading.cells import INT64_MAX, decimal_times_ns, whole_numbers
from kvsim.traces.reading.checks import check_num_ids, optional_ids
from kvsim.traces.reading.intake import IdForm
from kvsim.traces.reading.tables import JsonLines

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.batch import Batch
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_BLOCK_TOKENS: Final = 16
_NEEDED: Final = ("chat_id", "parent_chat_id", "timestamp", "input_length")
_OPTIONAL: Final = ("output_length", "hash_ids", "turn", "type")
_DETECTED_BY: Final = frozenset({"chat_id", "parent_chat_id", "input_length"})


class BailianReader:
    """Reader of Qwen-Bailian traces."""

    name = "qwen-bailian"
    title = "Qwen-Bailian trace: conversations with ids of 16 tokens (JSON lines)"

    def detect(self, head: Head) -> bool:
        """Tell by the two chat ids."""
        return head.json_keys.issuperset(_DETECTED_BY)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; the first arrival becomes zero."""
        lines = JsonLines(source)
        chats = _Chats(intake)
        for batch in lines.batches(intake, _NEEDED, _OPTIONAL):
            _add(batch, intake, chats)
        if chats.num_orphans:
            intake.receipt.notes.append(
                f"{counted(chats.num_orphans, 'turn follows', 'turns follow')} a chat that the "
                "file does not hold, as if it followed none"
            )
        intake.note_ignored(sorted(lines.other_keys), ())
        return intake.trace(
            time_unit="s",
            time_column="timestamp",
            id_form=IdForm(_BLOCK_TOKENS, covers_output=False, partial=True),
        )


def _add(batch: Batch, intake: Intake, chats: _Chats) -> None:
    prompt_tokens = whole_numbers(batch, "input_length")
    ids = optional_ids(batch, "hash_ids")
    expected = -(-prompt_tokens // _BLOCK_TOKENS)
    rule = f"one id for each {_BLOCK_TOKENS} tokens begun"
    check_num_ids(batch, ("hash_ids", "input_length"), ids, expected, rule, optional=True)
    columns = {
        "arrival_ns": decimal_times_ns(batch, "timestamp", scale=9),
        "prompt_tokens": prompt_tokens,
        "output_tokens": intake.output_tokens(batch, "output_length"),
    }
    chat = whole_numbers(batch, "chat_id", low=0, high=INT64_MAX)
    parent = whole_numbers(batch, "parent_chat_id", low=-1, high=INT64_MAX, default=-1)
    session, turn, after = chats.link(batch, chat, parent)
    columns |= {"turn": turn, "after_request": after}
    intake.add(batch, {**columns, "session": session}, ids)


class _Chats:
    """Which row each chat is, and the conversation and turn it belongs to."""

    def __init__(self, intake: Intake) -> None:
        self.num_orphans = 0
        self._intake = intake
        self._seen: dict[int, tuple[int, int, int]] = {}  # chat -> row, root, turn

    def link(
        self, batch: Batch, chat: NDArray[np.int64], parent: NDArray[np.int64]
    ) -> tuple[NDArray[np.object_], NDArray[np.int64], NDArray[np.int64]]:
        rows_before = self._intake.receipt.rows_read
        session = np.empty(len(batch), dtype=np.object_)
        session[:] = ""
        turn = np.zeros(len(batch), dtype=np.int64)
        after = np.full(len(batch), -1, dtype=np.int64)
        keep = batch.kept()
        for row, (own, of) in enumerate(zip(chat.tolist(), parent.tolist(), strict=True)):
            if not keep[row]:
                continue
            if own in self._seen:
                batch.reject(
                    row,
                    "chat_id occurs twice",
                    f"chat_id {own} is also that of an earlier row; each request needs its own",
                )
                continue
            root = own
            if of in self._seen:
                after[row], root, turns = self._seen[of]
                turn[row] = turns + 1
            elif of >= 0:
                self.num_orphans += 1
            session[row] = str(root)
            self._seen[own] = (rows_before + row, root, int(turn[row]))
        return session, turn, after
