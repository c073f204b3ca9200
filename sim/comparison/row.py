"""What a comparison keeps of one run: shares of KV memory, a few metrics, the verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kvsim.sim.comparison.sketch import kv_in_use
from kvsim.sim.comparison.thumbnail import course_of
from kvsim.sim.metrics import shares as memory_shares
from kvsim.sim.metrics.phases import Windows
from kvsim.sim.metrics.tables import series_table
from kvsim.sim.scenario.loader import scenario_to_dict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvsim.sim.comparison.thumbnail import Course
    from kvsim.sim.run.run import Run

_WAITS: Final = ("longest_wait_s", "most_overtaken", "starved")
_RETENTION: Final = (
    "full_mean_bytes",
    "shared_mean_bytes",
    "per_head_mean_bytes",
    "holes_percent_of_held",
    "attention_mass_kept",
)
Shares = dict[str, float] | None
"""Fractions that add up to 1; ``None`` where no time passed."""


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario's result; ``views`` are over the time in which requests waited.

    ``verified`` says how the rules were checked (``None``: no engine's), ``cost`` where step times
    come from and how many steps lay outside the measured range; ``course`` is for drawing alone.
    """

    name: str
    trace: str
    rate_scale: str
    scenario: dict[str, object]
    kv_bytes_share: dict[str, Shares]
    views: dict[str, Shares]
    kv_in_use: dict[str, Any]
    metrics: dict[str, Any]
    verdict: dict[str, Any]
    notes: list[str]
    verified: str | None
    cost: dict[str, Any]
    course: Course = field(repr=False, compare=False)

    def to_json(self) -> dict[str, object]:
        """Plain dict of all fields but the course."""
        return {name: value for name, value in asdict(self).items() if name != "course"}


def row_of(name: str, run: Run) -> Row:
    """Row of a finished run."""
    recorder, pool = run.engine.recorder, run.setup.pool
    parts = {
        "all_time": memory_shares.all_time(recorder, pool),
        "while_waiting": memory_shares.while_waiting(recorder, pool),
    }
    waiting = parts["while_waiting"]
    summary: dict[str, Any] = run.summary
    series = series_table(recorder, pool)
    return Row(
        name=name,
        trace=run.trace.name,
        rate_scale=str(run.options.rate_scale),
        scenario=scenario_to_dict(run.scenario),
        kv_bytes_share={window: _fractions(part) for window, part in parts.items()},
        views={
            view: _fractions(memory_shares.states(waiting, view)) for view in memory_shares.VIEWS
        },
        kv_in_use=kv_in_use(series),
        metrics=_metrics(summary, run),
        verdict=summary["verdict"],
        notes=summary["notes"],
        verified=summary["scenario"]["verified"],
        cost=summary["cost"],
        course=course_of(series),
    )


def _fractions(parts: Mapping[str, int]) -> Shares:
    total = sum(parts.values())
    return {name: value / total for name, value in parts.items()} if total else None


def _metrics(summary: Mapping[str, Any], run: Run) -> dict[str, Any]:
    """Numbers of the summary that are compared, flat; ``None`` where undefined."""
    windows, waited = Windows.of(run.engine.recorder), run.engine.recorder.while_waiting
    goodput = summary["goodput"]
    latencies = {
        f"{name}_{statistic}": summary["latency"][name][statistic]
        for name in ("ttft_s", "tpot_s", "e2e_s")
        for statistic in ("mean", "p50", "p99")
    }
    waits = {name: summary["queue"][name] for name in _WAITS}
    kept = summary["retention"] or {}
    users = summary["users"]
    others = None if users is None else users["others"]["ttft_s"]
    counts = {name: summary["requests"][name] for name in ("finished", "refused", "unfinished")}
    return {
        "pool_bytes": run.setup.pool.pool_bytes,
        "arrivals_per_s": _arrival_rate(summary),
        **counts,
        "mean_running": windows.mean_between(windows.running, 0, run.engine.recorder.end_ps),
        "mean_running_while_waiting": waited["running"] / waited["window"]
        if waited["window"]
        else None,
        "peak_running": run.engine.recorder.peak_running,
        "sustained_requests_per_s": summary["throughput"]["sustained_requests_per_s"],
        "requests_per_s": summary["throughput"]["requests_per_s"],
        "output_tokens_per_s": summary["throughput"]["output_tokens_per_s"],
        **latencies,
        "goodput_requests_per_s": None if goodput is None else goodput["requests_per_s"],
        **waits,
        "heaviest_user_ttft_s_mean": None if users is None else users["heaviest"]["ttft_s"]["mean"],
        **{
            f"other_users_ttft_s_{statistic}": None if others is None else others[statistic]
            for statistic in ("mean", "p99")
        },
        "preemptions": summary["preemptions"]["count"],
        "swaps": summary["preemptions"]["by_mode"]["swap"],
        "copying_s": summary["host"]["copying_s"],
        "hit_percent": summary["cache"]["hit_percent"],
        "sharing_savings_percent": summary["memory"]["while_waiting"]["sharing"]["savings_percent"],
        **{f"retention_{name}": kept.get(name) for name in _RETENTION},
    }


def _arrival_rate(summary: Mapping[str, Any]) -> float | None:
    """Requests a second between the first arrival and the last."""
    window = summary["window"]
    span_s = window["last_arrival_s"] - window["first_arrival_s"]
    return (summary["requests"]["total"] - 1) / span_s if span_s else None
