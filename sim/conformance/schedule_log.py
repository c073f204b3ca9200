"""A simulated schedule, written in the format of a recorded log.

An engine's decisions go to ``ScheduleLog`` (``add_call``, ``add_result``), which completes them to
step, request and summary records. A ``watcher`` gets each half of a record as soon as it is
complete.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from kvsim.sim.recording.recorder import ABORTED, FINISHED, REFUSED
from kvsim.traces.common.quantities import PS_PER_NS
from kvsim.traces.trace.trace import STOP

if TYPE_CHECKING:
    from kvsim.sim.recording.recorder import Recorder
    from kvsim.traces.trace.trace import Trace


class Watcher(Protocol):
    """Gets records while they are written, in the order of the log."""

    def called(self, record: dict[str, Any]) -> None:
        """Note what a call decided of a step, or a ``rejected`` line."""
        ...

    def applied(self, record: dict[str, Any]) -> None:
        """Note the same step with its results applied."""
        ...


class ScheduleLog:
    """Records of one run; times are written in ns.

    Parameters
    ----------
    trace : Trace
    watcher : Watcher, optional

    Attributes
    ----------
    records : list of dict
        Steps and ``rejected`` lines, in the order of the log.
    recorder : Recorder or None
        The engine's, from its first call on; known requests' ends are read from it.
    caching : bool
        Whether the engine's prefix cache is on.
    """

    def __init__(self, trace: Trace, watcher: Watcher | None = None) -> None:
        self.records: list[dict[str, Any]] = []
        self.recorder: Recorder | None = None
        self.caching = False
        self._trace = trace
        self._arrival_ps: list[int] = (trace.arrival_ns * PS_PER_NS).tolist()
        self._watcher = watcher
        self._pending: deque[dict[str, Any]] = deque()
        self._num_arrived = 0
        self._num_steps = 0
        self._last_end_ps = 0
        self._first_step: dict[str, int] = {}
        self._resume_hits: dict[str, list[int]] = {}
        self._resumed_tokens: int | None = 0
        self._free_at_end: int | None = None
        self._aborted: list[tuple[int, str]] = []

    def add_call(
        self,
        times_ps: tuple[int, int, int],
        record: dict[str, Any],
        resumed_tokens: int | None,
    ) -> None:
        """Note that a scheduling call handed out a step.

        ``times_ps``: call, start and end. ``record``: ``sched``, ``admitted``, ``preempted``,
        ``free_after_schedule``, ``evicted`` and, where known, ``alloc`` and ``evicted_ids``.
        ``resumed_tokens``: known tokens of the requests it resumed (``None``: unknown).
        """
        call_ps, start_ps, end_ps = times_ps
        if call_ps > self._last_end_ps and not self._pending:
            self._reject_idle(call_ps)
        arrived, rejected = self._arrivals(call_ps)
        step = self._num_steps
        record |= {
            "type": "step",
            "i": step,
            "ts": call_ps // PS_PER_NS,
            "t0": start_ps // PS_PER_NS,
            "t1": end_ps // PS_PER_NS,
            "arrived": arrived,
            "rejected": rejected,
        }
        for name, hit_tokens, how in record["admitted"]:
            if how == "new":
                self._first_step[name] = step
            else:
                self._resume_hits.setdefault(name, []).append(hit_tokens)
        if resumed_tokens is None or self._resumed_tokens is None:
            self._resumed_tokens = None
        else:
            self._resumed_tokens += resumed_tokens
        self._num_steps += 1
        self._last_end_ps = end_ps
        self._pending.append(record)
        self._write(record)

    def add_result(self, record: dict[str, Any]) -> None:
        """Note the results of the oldest step not yet applied.

        ``record``: ``finished``, ``late``, ``dropped``, ``free_after_update``, ``running``,
        ``waiting`` and, where known, ``cached_blocks``.
        """
        step = self._pending.popleft()
        step |= record
        self._free_at_end = record["free_after_update"]
        if self._watcher is not None:
            self._watcher.applied(step)

    def add_abort(self, index: int, now_ps: int) -> None:
        """Note that an engine aborted the request of a client that gave up."""
        self._aborted.append((now_ps // PS_PER_NS, self._trace.request_id(index)))

    def close(self) -> None:
        """Write the requests rejected after the last step, at the end of the run."""
        if self._num_arrived < len(self._arrival_ps):
            self._reject_idle(self._arrival_ps[-1] + 1)

    def _write(self, record: dict[str, Any]) -> None:
        self.records.append(record)
        if self._watcher is not None:
            self._watcher.called(record)

    def _arrivals(self, upto_ps: int) -> tuple[list[str], list[str]]:
        """Return the names of the requests that arrived by then: accepted, rejected."""
        names: tuple[list[str], list[str]] = ([], [])
        while self._num_arrived < len(self._arrival_ps):
            index = self._num_arrived
            if self._arrival_ps[index] > upto_ps:
                break
            names[self._is_refused(index)].append(self._trace.request_id(index))
            self._num_arrived += 1
        return names

    def _is_refused(self, index: int) -> bool:
        return self.recorder is not None and self.recorder.status[index] == REFUSED

    def _reject_idle(self, before_ps: int) -> None:
        """Write the requests rejected while the engine was idle, one line for each instant."""
        while self._num_arrived < len(self._arrival_ps):
            now_ps = max(self._arrival_ps[self._num_arrived], self._last_end_ps)
            if now_ps >= before_ps or not self._is_refused(self._num_arrived):
                return
            _, rejected = self._arrivals(now_ps)
            self._write({"type": "rejected", "t0": now_ps // PS_PER_NS, "ids": rejected})

    # ---- records at the end of the run -----------------------------------------------------

    def requests(self) -> list[dict[str, Any]]:
        """Request records in trace order."""
        return [self._request(index) for index in range(len(self._trace))]

    def _request(self, index: int) -> dict[str, Any]:
        trace, recorder = self._trace, self.recorder
        assert recorder is not None, "the log never saw its engine"
        name = trace.request_id(index)
        status = recorder.status[index]
        stops = trace.ends_by is not None and trace.ends_by[index] == STOP
        whole = recorder.output_tokens[index] == trace.output_tokens[index]
        return {
            "type": "request",
            "id": name,
            "arrival_ns": int(trace.arrival_ns[index]),
            "prompt_len": int(trace.prompt_tokens[index]),
            "priority": 0 if trace.priority is None else int(trace.priority[index]),
            "status": {FINISHED: "ok", ABORTED: "ok", REFUSED: "rejected"}.get(
                status, "unfinished"
            ),
            "first_scheduled_step": self._first_step.get(name),
            "first_token_ns": _ns(recorder.first_token_ps[index]),
            "finish_ns": None if status == ABORTED else _ns(recorder.finish_ps[index]),
            "output_tokens": recorder.output_tokens[index],
            "cached_prompt_tokens": recorder.hit_tokens[index]
            if name in self._first_step
            else None,
            "preemptions": recorder.preemptions[index],
            "resume_hits": self._resume_hits.get(name, []),
            "finish_reason": "abort"
            if status == ABORTED
            else "stop"
            if stops and whole
            else "length",
        }

    def summary(self) -> dict[str, Any]:
        """Return the summary record, without keys that the engine did not report."""
        recorder, trace = self.recorder, self._trace
        assert recorder is not None, "the log never saw its engine"
        steps = [record for record in self.records if record["type"] == "step"]
        status = list(recorder.status)
        accepted = [index for index, value in enumerate(status) if value != REFUSED]
        last_ns = max((record.get("t1", record["t0"]) for record in self.records), default=0)
        summary = {
            "steps": len(steps),
            "end_ns": last_ns,
            "preemptions": recorder.num_preemptions,
            "evicted_blocks": recorder.num_evicted_blocks,
            "stalled": any(status[index] not in (FINISHED, ABORTED) for index in accepted),
            "requests": len(trace),
            "finished": status.count(FINISHED),
            "rejected": status.count(REFUSED),
            "prompt_tokens": sum(int(trace.prompt_tokens[index]) for index in accepted),
            "cached_prompt_tokens": sum(recorder.hit_tokens),
            "resume_hit_tokens": sum(recorder.resume_hit_tokens),
            "output_tokens": sum(recorder.output_tokens),
            "scheduled_tokens": sum(item[1] for step in steps for item in step["sched"]),
            "dropped_tokens": sum(len(step.get("dropped", ())) for step in steps),
            "free_at_end": self._free_at_end,
            "aborted": sorted(self._aborted),
        }
        if self._resumed_tokens is not None:
            summary["vllm_prefix_cache_stats"] = self._cache_stats(summary, self._resumed_tokens)
        return summary

    def _cache_stats(self, summary: dict[str, Any], resumed_tokens: int) -> dict[str, int]:
        """Return the lookups as the engine counts them (all 0 without prefix caching)."""
        stats = {
            "queries": sum(
                int(self._trace.prompt_tokens[index])
                for index in range(len(self._trace))
                if self._trace.request_id(index) in self._first_step
            ),
            "hits": summary["cached_prompt_tokens"],
            "requests": len(self._first_step),
            "preempted_queries": resumed_tokens,
            "preempted_hits": summary["resume_hit_tokens"],
            "preempted_requests": sum(map(len, self._resume_hits.values())),
        }
        return stats if self.caching else dict.fromkeys(stats, 0)


def _ns(time_ps: int) -> int | None:
    return None if time_ps < 0 else time_ps // PS_PER_NS
