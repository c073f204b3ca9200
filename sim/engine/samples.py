"""Each sample is a separate request, as in vLLM's v1 engine (``ParentRequest``, 0.32.0).

A row of the trace with ``n`` outputs becomes ``n`` requests that arrive together. Their prompts
have the same ids, so with a prefix cache they hit each other's full blocks. Only the first sample
keeps the ids that the trace recorded for its output; the other outputs are anonymous. All samples
of a row have the row's output length.

    row        0    1    1    1    2
    request   [0]  [1]  [2]  [3]  [4]      first = 0 1 4

After the run :meth:`Samples.fold` makes one entry for each row again. A row is scheduled, and gets
its first token, when the first of its samples does. It ends with the last one. If a sample is
unfinished, the row is unfinished; otherwise, if one is refused, the row is refused; otherwise, if
one is aborted, it is aborted. ``output_tokens`` are those of its longest sample. So latencies per
token are those that a reader of one output sees.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.recording.recorder import ABORTED, FINISHED, REFUSED, UNFINISHED
from kvsim.traces.trace.trace import PrefixIds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.recording.recorder import Recorder
    from kvsim.traces.trace.trace import Trace

_WORST_FIRST: Final = (UNFINISHED, REFUSED, ABORTED, FINISHED)
_SUMS: Final = ("hit_tokens", "preemptions", "lost_tokens", "resume_hit_tokens", "stall_ps")
_ROW_COLUMNS: Final = (
    "arrival_ns",
    "prompt_tokens",
    "output_tokens",
    "max_tokens",
    "ends_by",
    "priority",
    "timeout_ns",
)
"""Columns that engines read; samples cannot be combined with turns that follow others."""


@dataclass(frozen=True, slots=True)
class Samples:
    """``trace`` has one entry a sample; ``row`` is its row, ``first`` where each row begins."""

    trace: Trace
    row: NDArray[np.int64]
    first: NDArray[np.int64]

    @staticmethod
    def of(trace: Trace, config: SchedulerConfig) -> Samples | None:
        """Expand a trace; ``None`` where every row is one request, or one sequence group."""
        counts = trace.num_samples
        if counts is None or config.allocator.samples != "requests" or not (counts > 1).any():
            return None
        row = np.repeat(np.arange(len(trace)), counts)
        first = np.concatenate([[0], np.cumsum(counts)[:-1]])
        columns = {
            name: column[row]
            for name in _ROW_COLUMNS
            if (column := getattr(trace, name)) is not None
        }
        place = np.arange(len(row)) - first[row]
        names = [trace.request_id(index) for index in range(len(trace))]
        users, sessions = trace.user, trace.session or [""] * len(trace)
        expanded = replace(
            trace,
            **columns,
            ids=[
                f"{number}_{names[index]}" if counts[index] > 1 else names[index]
                for number, index in zip(place.tolist(), row.tolist(), strict=True)
            ],
            user=None if users is None else [users[index] for index in row.tolist()],
            session=[sessions[index] or names[index] for index in row.tolist()],
            prefix=_prefix(trace, row, place, config) if config.enable_prefix_caching else None,
            num_samples=None,
            beam_width=None,
            turn=None,
            after_request=None,
            also_after=None,
            delay_ns=None,
            has_time=None,
        )
        return Samples(expanded, row, first)

    def fold(self, recorder: Recorder) -> Recorder:
        """Make the recorder's columns those of the rows; its totals and integrals stay."""
        status = np.asarray(recorder.status)
        rank = np.empty(max(_WORST_FIRST) + 2, dtype=np.int8)
        rank[list(_WORST_FIRST)] = range(len(_WORST_FIRST))
        rows_status = np.array(_WORST_FIRST, dtype=np.int8)[
            np.minimum.reduceat(rank[status], self.first)
        ]
        output_tokens = np.asarray(recorder.output_tokens)
        longest = np.maximum.reduceat(output_tokens, self.first)
        all_tokens = np.add.reduceat(output_tokens, self.first)
        ended = np.maximum.reduceat(np.asarray(recorder.finish_ps), self.first)
        admitted = np.asarray(recorder.first_scheduled_ps) >= 0
        assert recorder.arrival_ps is not None, "the driver sets it"
        arrival_ps = np.asarray(recorder.arrival_ps, dtype=np.int64)[self.first]

        for name in _SUMS:
            setattr(recorder, name, self._summed(getattr(recorder, name)))
        for name in ("first_scheduled_ps", "first_token_ps"):
            setattr(recorder, name, self._earliest(getattr(recorder, name)))
        predicted = np.asarray(recorder.predicted_tokens)[self.first]
        recorder.predicted_tokens = array("q", predicted.tolist())
        recorder.finish_ps = array("q", np.where(rows_status == UNFINISHED, -1, ended).tolist())
        recorder.status = array("b", rows_status.tolist())
        recorder.output_tokens = array("i", longest.tolist())
        recorder.further_tokens = array("i", (all_tokens - longest).tolist())
        recorder.num_prompts = array("i", np.add.reduceat(admitted, self.first, dtype=int).tolist())
        recorder.refusals = {
            int(self.row[index]): reason
            for index, reason in sorted(recorder.refusals.items(), reverse=True)
        }
        recorder.arrival_ps = arrival_ps.data.cast("B").cast("q")
        return recorder

    def _summed(self, column: array[int]) -> array[int]:
        return array(column.typecode, np.add.reduceat(np.asarray(column), self.first).tolist())

    def _earliest(self, column: array[int]) -> array[int]:
        """Return the first time among a row's samples; -1 if no sample has one."""
        never = np.iinfo(np.int64).max
        times = np.asarray(column)
        first = np.minimum.reduceat(np.where(times < 0, never, times), self.first)
        return array(column.typecode, np.where(first == never, -1, first).tolist())


def _prefix(
    trace: Trace, row: NDArray[np.int64], place: NDArray[np.int64], config: SchedulerConfig
) -> PrefixIds:
    """Return the ids of all samples: those of their row; samples without ids get new ones."""
    given = trace.prefix
    if given is None:
        given = PrefixIds(
            config.block_size, np.zeros(len(trace) + 1, np.int64), np.zeros(0, np.int64)
        )
    held = np.diff(given.offsets)
    several = np.bincount(row, minlength=len(trace)) > 1
    missing = np.where(several, -(-trace.prompt_tokens // given.block_size) - held, 0).clip(0)
    candidates = np.arange(missing.sum() + len(given.ids))
    fresh = np.setdiff1d(candidates, given.ids)[: missing.sum()]
    new_at = np.concatenate([[0], np.cumsum(missing)])
    lists = [
        np.concatenate(
            [given.ids[given.offsets[i] : given.offsets[i + 1]], fresh[new_at[i] : new_at[i + 1]]]
        )
        for i in range(len(trace))
    ]
    offsets = np.concatenate([[0], np.cumsum((held + missing)[row])])
    return replace(
        given,
        offsets=offsets,
        ids=np.concatenate([lists[i] for i in row.tolist()]).astype(np.int64),
        anonymous_answer=place > 0,
    )
