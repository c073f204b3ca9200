"""Ids of outputs: the recorded ones, ids inferred from the next turn, or none.

The prompt of a next turn repeats the prompt before it, then the output, and then has the new text
of the user. So its ids name the blocks of that output. kvsim accepts this if the prompt is long
enough and begins with the same full blocks, at least one. It skips calls of sub-agents, which begin
with other blocks:

    turn k      |---- prompt ----|-- output --|
    ids                 1    2   .            .          (prompt only)
    turn k + 1  |---- prompt ------------------------|-- output --|
    ids                 1    2     7       8       9
    inferred            1    2     7       8             for turn k: full blocks within its output

The engine shows such ids to policies only after it has generated the tokens.
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

OUTPUT_IDS: Final = ("recorded", "next-turn", "anonymous")
_PASSED_OVER: Final = 64


def apply_output_ids(trace: Trace, output_ids: str) -> Trace:
    """Return the trace with the selected ids of outputs; ``trace`` is not changed.

    ``recorded`` keeps the ids of the trace. ``anonymous`` drops the ids of blocks that hold a token
    of the output, so hits are a lower bound. ``next-turn`` infers ids if the trace has none for
    outputs; a request whose output cannot be inferred has ids for the full blocks of its prompt
    only. O(ids).

    Raises
    ------
    TraceError
        An unknown choice, or ``next-turn`` for a trace without ids or without sessions.
    """
    check_trace(trace)
    if output_ids not in OUTPUT_IDS:
        raise TraceError(unknown("--output-ids", output_ids, OUTPUT_IDS))
    if output_ids == "recorded" or (output_ids == "anonymous" and trace.prefix is None):
        return trace
    if output_ids == "anonymous":
        return _anonymous(trace)
    if trace.prefix is None:
        raise TraceError(
            "--output-ids next-turn infers ids of outputs from ids of prompts, but this trace has "
            "none; leave out --output-ids"
        )
    if trace.prefix.covers_output:
        return _with(trace, trace.prefix, "outputs have ids already; none are inferred")
    return _next_turn(trace, trace.prefix)


def _anonymous(trace: Trace) -> Trace:
    prefix = trace.prefix
    assert prefix is not None, "checked before"
    if prefix.covers_output:
        ids = Ragged(np.diff(prefix.offsets), prefix.ids)
        prefix = _prefix(prefix, ids.clip(trace.prompt_tokens // prefix.block_size), covers=False)
    return _with(
        trace, prefix, "outputs have no ids (--output-ids anonymous): hits are a lower bound"
    )


def _next_turn(trace: Trace, prefix: PrefixIds) -> Trace:
    parents = parents_of(trace)
    if not (parents >= 0).any():
        raise TraceError(
            "--output-ids next-turn needs turns that follow each other, but no request of this "
            "trace follows another; leave out --output-ids"
        )
    size = prefix.block_size
    full = trace.prompt_tokens // size
    upto = (trace.prompt_tokens + trace.output_tokens) // size
    known = np.minimum(np.diff(prefix.offsets), full)  # ids of full blocks of the prompt
    total = trace.prompt_tokens + trace.output_tokens
    chosen = np.arange(len(trace))  # the request whose ids each request takes
    lengths = known.copy()
    for child in np.flatnonzero(parents >= 0).tolist():
        parent = _turn_before(prefix, parents, child)
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
        f"outputs of {counted(num_inferred, 'request')} have ids that were inferred from the "
        "prompt of the next turn"
    )
    if num_cut:
        one = "id of a partial block at the end of a prompt is"
        several = "ids of partial blocks at the end of prompts are"
        note += f"; {counted(num_cut, one, several)} cut"
    return _with(trace, inferred, note)


def parents_of(trace: Trace) -> NDArray[np.int64]:
    """Return the request that each request follows, -1 for none.

    The column ``after_request`` says so; without it, the order within each session does.
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


def _turn_before(prefix: PrefixIds, parents: NDArray[np.int64], child: int) -> int:
    """Return the nearest request before a turn with the same first block, -1 for none."""
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
