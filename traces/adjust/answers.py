"""Whose answers can be hit: the ids given for them, ids inferred from the next turn, or none.

A next turn's prompt repeats the prompt before it, then the answer, then what the user added, so
its ids name the blocks of that answer. That it does is believed where its prompt is long enough
and begins with the same full blocks, at least one (calls of sub-agents, which begin otherwise, are
passed over):

    turn k      |---- prompt ----|-- answer --|
    ids                 1    2   .            .          (prompt only)
    turn k + 1  |---- prompt ------------------------|-- answer --|
    ids                 1    2     7       8       9
    inferred            1    2     7       8             for turn k: full blocks within its answer

Policies see such ids only once the tokens are generated; that is the engine's part.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.common.names import unknown
from kvsim.traces.common.text import counted
from kvsim.traces.reading.batch import Ragged
from kvsim.traces.trace.columns import check_trace
from kvsim.traces.trace.trace import PrefixIds, TraceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.trace.trace import Trace

ANSWERS: Final = ("recorded", "next-turn", "anonymous")
_PASSED_OVER: Final = 64


def apply_answers(trace: Trace, answers: str) -> Trace:
    """Return the trace with the prefix ids that ``answers`` asks for; ``trace`` is not changed.

    ``recorded`` leaves them as they are. ``anonymous`` drops ids of blocks that hold a token of
    the answer: hits are then a lower bound. ``next-turn`` infers ids where the file has none for
    answers; requests whose answer cannot be inferred have no ids beyond their prompt's full
    blocks. O(ids).

    Raises
    ------
    TraceError
        An unknown choice, or ``next-turn`` for a trace without ids or without sessions.
    """
    check_trace(trace)
    if answers not in ANSWERS:
        raise TraceError(unknown("--answers", answers, ANSWERS))
    if answers == "recorded" or (answers == "anonymous" and trace.prefix is None):
        return trace
    if answers == "anonymous":
        return _anonymous(trace)
    if trace.prefix is None:
        raise TraceError(
            "--answers next-turn infers ids of answers from ids of prompts, and this trace has "
            "none; leave it out"
        )
    if trace.prefix.covers_output:
        return _with(trace, trace.prefix, "answers have ids of their own: nothing to infer")
    return _next_turn(trace, trace.prefix)


def _anonymous(trace: Trace) -> Trace:
    prefix = trace.prefix
    assert prefix is not None, "checked before"
    if prefix.covers_output:
        ids = Ragged(np.diff(prefix.offsets), prefix.ids)
        prefix = _prefix(prefix, ids.clip(trace.prompt_tokens // prefix.block_size), covers=False)
    return _with(trace, prefix, "answers are anonymous (--answers): hits are a lower bound")


def _next_turn(trace: Trace, prefix: PrefixIds) -> Trace:
    parents = parents_of(trace)
    if not (parents >= 0).any():
        raise TraceError(
            "--answers next-turn needs turns that follow each other, and no request of this trace "
            "follows another; leave it out"
        )
    size = prefix.block_size
    full = trace.prompt_tokens // size
    upto = (trace.prompt_tokens + trace.output_tokens) // size
    known = np.minimum(np.diff(prefix.offsets), full)  # ids of full blocks of the prompt
    total = trace.prompt_tokens + trace.output_tokens
    chosen = np.arange(len(trace))  # whose ids a request takes
    lengths = known.copy()
    for child in np.flatnonzero(parents >= 0).tolist():
        parent = _speaker_before(prefix, parents, child)
        if parent < 0 or chosen[parent] != parent or known[parent] < max(int(full[parent]), 1):
            continue
        if trace.prompt_tokens[child] < total[parent] or known[child] <= known[parent]:
            continue
        if _begins_alike(prefix, parent, child, int(known[parent])):
            chosen[parent] = child
            lengths[parent] = min(int(known[child]), int(upto[parent]))
    pieces = [
        prefix.ids[start : start + length]
        for start, length in zip(prefix.offsets[chosen].tolist(), lengths.tolist(), strict=True)
    ]
    inferred = _prefix(prefix, Ragged(lengths, np.concatenate(pieces)), covers=True)
    num_inferred = int(np.count_nonzero(chosen != np.arange(len(trace))))
    num_cut = int(np.count_nonzero(np.diff(prefix.offsets) > full))
    note = (
        f"answers of {counted(num_inferred, 'request')} have ids inferred from the next "
        "turn's prompt"
    )
    if num_cut:
        one = "id of a partial block at the end of a prompt is"
        several = "ids of partial blocks at the end of prompts are"
        note += f"; {counted(num_cut, one, several)} cut"
    return _with(trace, inferred, note)


def parents_of(trace: Trace) -> NDArray[np.int64]:
    """Return the request that each one follows, -1 for none.

    By ``after_request``, or where a trace does not say it by the order within sessions.
    """
    if trace.after_request is not None:
        return trace.after_request
    parents = np.full(len(trace), -1, dtype=np.int64)
    last: dict[str, int] = {}
    for index, session in enumerate(trace.session or ()):
        if session:
            parents[index] = last.get(session, -1)
            last[session] = index
    return parents


def _speaker_before(prefix: PrefixIds, parents: NDArray[np.int64], child: int) -> int:
    """Return the nearest request before a turn whose first block is the turn's, -1 for none."""
    offsets, ids = prefix.offsets, prefix.ids
    parent = int(parents[child])
    for _ in range(_PASSED_OVER):
        if parent < 0 or offsets[child] == offsets[child + 1]:
            return -1
        if offsets[parent] < offsets[parent + 1] and ids[offsets[parent]] == ids[offsets[child]]:
            return parent
        parent = int(parents[parent])
    return -1


def _begins_alike(prefix: PrefixIds, first: int, second: int, count: int) -> bool:
    one, other = int(prefix.offsets[first]), int(prefix.offsets[second])
    return bool((prefix.ids[one : one + count] == prefix.ids[other : other + count]).all())


def _prefix(prefix: PrefixIds, ids: Ragged, *, covers: bool) -> PrefixIds:
    offsets = np.zeros(len(ids.lengths) + 1, dtype=np.int64)
    np.cumsum(ids.lengths, out=offsets[1:])
    return replace(prefix, offsets=offsets, ids=ids.flat, covers_output=covers)


def _with(trace: Trace, prefix: PrefixIds, note: str) -> Trace:
    receipt = trace.receipt
    if receipt is not None:
        receipt = replace(
            receipt, ids_cover_output=prefix.covers_output, notes=[*receipt.notes, note]
        )
        if prefix is not trace.prefix:
            receipt.ids_partial = False
    return replace(trace, prefix=prefix, receipt=receipt)
