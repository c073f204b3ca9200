"""Compare a recorded schedule with the simulated one, record by record, to the first difference.

The comparison watches the simulated log while any engine writes it
(:class:`~kvsim.sim.conformance.schedule_log.Watcher`). It ends the run at the first record that
differs. So a wrong rule costs only the steps up to its first effect. Fields in ``without`` are not
compared; an engine may not know them (such as physical block ids).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kvsim.sim.conformance.difference import Difference, differing
from kvsim.sim.conformance.leap_log import STEPPER_ONLY, LeapLog
from kvsim.sim.conformance.stepper_log import StepperLog
from kvsim.sim.conformance.vllm_log import engine_options
from kvsim.sim.leaping.leaper import leapable
from kvsim.sim.run.drive import Engine, Watchers, run
from kvsim.traces.adjust.max_tokens import assume_max_tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kvsim.sim.conformance.schedule_log import ScheduleLog
    from kvsim.sim.conformance.vllm_log import GoldenLog
    from kvsim.traces.trace.trace import Trace


_AT_CALL: Final = (  # causes before their effects
    "type",
    "i",
    "ts",
    "t0",
    "ids",
    "arrived",
    "rejected",
    "preempted",
    "admitted",
    "sched",
    "t1",
    "free_after_schedule",
    "evicted",
    "alloc",
    "evicted_ids",
)
_AT_RESULT: Final = (
    "finished",
    "late",
    "dropped",
    "free_after_update",
    "running",
    "waiting",
    "cached_blocks",
)
_IF_ANY: Final[dict[str, Any]] = {"rejected": [], "late": [], "dropped": [], "dropped_tokens": 0}
"""Fields that a log leaves out if they are empty."""

_NUM_BEFORE: Final = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a comparison: ``difference`` is ``None`` if the schedules are identical."""

    difference: Difference | None
    num_steps: int
    engine: str


class _Found(Exception):  # noqa: N818 - ends the run, is not an error
    """Carries the first difference out of the run."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(difference.place)
        self.difference = difference


class Comparison:
    """Watches a schedule log and raises at the first record that differs from the recording.

    Fields in ``without`` are not compared. Fields that the recorded log does not have are compared
    only if a log leaves them out when empty. Tokens dropped because a client gave up are not
    compared, because only one loop of the engine records them.
    """

    def __init__(self, log: GoldenLog, without: Iterable[str] = ()) -> None:
        self._log = log
        self._without = frozenset(without)
        self._aborted = sorted((time, name) for time, name in log.summary.get("aborted", ()))
        self._gave_up = {name for _, name in self._aborted}
        self._num_called = 0
        self._steps = iter(n for n, record in enumerate(log.records) if record["type"] == "step")

    def called(self, record: dict[str, Any]) -> None:
        """Compare what a call decided with the next record of the log."""
        records, position = self._log.records, self._num_called
        self._num_called += 1
        theirs = records[position] if position < len(records) else {"type": "end of the steps"}
        self._compare(_place(theirs), _AT_CALL, theirs, record, position)

    def applied(self, record: dict[str, Any]) -> None:
        """Compare the results of the oldest open step."""
        position = next(self._steps)
        theirs = self._log.records[position]
        if self._gave_up and "dropped" in theirs:
            dropped = [name for name in theirs["dropped"] if name not in self._gave_up]
            theirs = {**theirs, "dropped": dropped}
        self._compare(_place(theirs), _AT_RESULT, theirs, record, position)

    def finish(self, ours: ScheduleLog) -> None:
        """Compare the steps that the run did not reach, the requests and the summary."""
        log, position = self._log, self._num_called
        ours.close()
        if position < len(log.records):
            theirs = log.records[position]
            end = {"type": "end of the steps"}
            self._compare(_place(theirs), ("type",), theirs, end, position)
        requests = ours.requests()
        if len(requests) != len(log.requests):
            numbers = ("number", len(log.requests), len(requests))
            raise _Found(Difference("the requests", [numbers], []))
        for theirs, record in zip(log.requests, requests, strict=True):
            fields = [key for key in record if key in theirs]
            if theirs["status"] == record["status"] == "rejected":
                fields.remove("finish_reason")  # a word that only the engine uses
            self._compare(f"request {theirs['id']}", fields, theirs, record, position)
        summary, theirs = ours.summary(), {**log.summary, "aborted": self._aborted}
        fields = [key for key in summary if key in theirs or key in _IF_ANY]
        if self._gave_up:
            fields.remove("dropped_tokens")
        self._compare("the summary", fields, theirs, summary, position)

    def _compare(
        self,
        place: str,
        fields: Iterable[str],
        theirs: Mapping[str, Any],
        ours: Mapping[str, Any],
        position: int,
    ) -> None:
        compared = [field for field in fields if field not in self._without]
        found = differing(compared, theirs, ours, _IF_ANY)
        if found:
            before = self._log.records[max(position - _NUM_BEFORE, 0) : position]
            raise _Found(Difference(place, found, [short(record) for record in before]))


def _place(record: Mapping[str, Any]) -> str:
    if record["type"] == "step":
        return f"step {record['i']}"
    if record["type"] == "rejected":
        return f"the requests rejected at t0={record['t0']}"
    return "the end of the steps"


def short(record: Mapping[str, Any]) -> str:
    """Return one line about a record of a log."""
    if record["type"] != "step":
        return f"rejected t0={record['t0']}: {' '.join(record['ids'])}"
    tokens = sum(item[1] for item in record["sched"])
    line = f"step {record['i']} t0={record['t0']} t1={record['t1']}"
    line += f": {len(record['sched'])} sequences, {tokens} tokens"
    for sign, names in (
        ("+", [item[0] for item in record["admitted"]]),
        ("preempted ", [item[0] for item in record["preempted"]]),
        ("finished ", record["finished"]),
    ):
        line += "".join(f" {sign}{name}" for name in names[:_NUM_BEFORE])
        line += " ..." if len(names) > _NUM_BEFORE else ""
    return line


def replay(
    log: GoldenLog,
    trace: Trace,
    options: Mapping[str, Any] | None = None,
    *,
    step: bool = True,
) -> Verdict:
    """Run the trace under the log's options (``options`` override them) and compare.

    Parameters
    ----------
    step : bool
        Run the stepper; only it knows physical block ids and the final free queue. Otherwise the
        leaper runs if it can.

    Raises
    ------
    ValueError
        An option is unknown or not allowed.
    """
    engine = Engine(*engine_options({**log.options, **(options or {})}))
    config = engine.config
    max_tokens = assume_max_tokens(trace, "model", config.max_model_len)
    leaps = not step and leapable(config)[0] and trace.timeout_ns is None
    comparison = Comparison(log, STEPPER_ONLY if leaps else ())
    difference = None
    ours: LeapLog | StepperLog
    try:
        if leaps:
            ours = LeapLog(trace, comparison)
            run(trace, engine, max_tokens=max_tokens, watchers=Watchers(leap_listener=ours))
        else:
            log_blocks = bool(log.options.get("log_blocks"))
            ours = StepperLog(trace, comparison, log_blocks=log_blocks)
            run(trace, engine, max_tokens=max_tokens, watchers=Watchers(listener=ours))
        comparison.finish(ours)
    except _Found as found:
        difference = found.difference
    num_steps = sum(record["type"] == "step" for record in ours.records)
    return Verdict(difference, num_steps, "leaper" if leaps else "stepper")
