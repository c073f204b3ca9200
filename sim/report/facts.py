"""Facts about a result for the top of a page: scenario, trace, rules, step cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.cost.datasheet import is_assumed
from kvsim.sim.scenario.loader import load_scenario, scenario_to_dict
from kvsim.sim.scenario.preset import preset_names
from kvsim.traces.common.text import counted, number, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kvsim.sim.documents.summary import Cost, Goodput, Requests, Throughput
    from kvsim.sim.run.run import Run
    from kvsim.sim.scenario.scenario import Scenario

_CHANGES_NOTHING: Final = ("step", "audit")
_TOLD_ELSEWHERE: Final = ("model.name", "hardware.name", "slo.ttft", "slo.tpot", "slo.e2e")
"""Keys that other lines of the head show."""
_USUAL: Final = (None, False, "1", "model")


def run_facts(run: Run) -> Iterator[tuple[str, str]]:
    """Yield scenario, trace, how the trace was read, rules and step cost of a run."""
    scenario, summary = run.scenario, run.summary
    yield (
        "scenario",
        f"{scenario.preset or 'own'}, {scenario.model.name} on {scenario.hardware.name}",
    )
    changed = "; ".join(_changed(scenario))
    if changed:
        yield "changed", changed
    yield "trace", trace_text(run.trace.name, len(run.trace), run.trace.sha256)
    read = "; ".join(_reading(run))
    if read:
        yield "read", read
    yield "rules", rules_text(scenario.preset, summary.scenario.verified)
    yield "step cost", cost_text([summary.cost])


def trace_text(name: str, num_requests: int, sha256: str) -> str:
    """Return name, size and digest of a trace."""
    digest = f", sha256 {sha256[:16]}" if sha256 else ""
    return f"{name}, {counted(num_requests, 'request')}{digest}"


def rules_text(preset: object, verified: str | None) -> str:
    """Return which engine's rules are simulated, and how they were verified."""
    return f"{preset}: {verified}" if preset else "own scenario: no engine's, nothing to verify"


def request_counts(requests: Requests) -> list[tuple[str, int]]:
    """Return how many requests ended in each way; rare ways are left out where the count is 0."""
    rare = [("aborted", requests.aborted), ("not sent", requests.not_sent)]
    return [
        ("finished", requests.finished),
        ("refused", requests.refused),
        ("unfinished", requests.unfinished),
        *((name, count) for name, count in rare if count),
    ]


def cost_text(costs: Sequence[Cost]) -> str:
    """Return the source of step times, and the share of steps outside its measured range.

    A source without a measured range has no share.
    """
    if is_assumed(costs[0].source):
        return costs[0].source
    shares = [cost.percent_outside for cost in costs if cost.percent_outside is not None]
    outside = " to ".join(dict.fromkeys(f"{edge(shares):.3g}" for edge in (min, max) if shares))
    told = f"{outside} % of the steps outside its measured range" if outside else "no step ran"
    return f"{costs[0].source}; {told}"


def throughput_text(rates: Throughput) -> str:
    """Return the rates over the whole run."""
    return (
        f"{number(rates.requests_per_s)} requests/s, "
        f"{number(rates.output_tokens_per_s)} output tokens/s, "
        f"{number(rates.total_tokens_per_s)} tokens/s"
    )


def goodput_text(goodput: Goodput) -> str:
    """Return the rate and the share of the requests that keep the limits, and the limits."""
    limits = ", ".join(
        f"{name.removesuffix('_s').upper()} <= {seconds(limit)}"
        for name, limit in goodput.slo.to_dict().items()
    )
    return (
        f"{number(goodput.requests_per_s)} requests/s, "
        f"{number(goodput.percent_of_finished)} % of the finished keep {limits}"
    )


def _changed(scenario: Scenario) -> Iterator[str]:
    """Yield the keys that differ from the preset."""
    if scenario.preset not in preset_names():
        return
    usual, tables = (scenario_to_dict(one) for one in (load_scenario(scenario.preset), scenario))
    for table, values in tables.items():
        before = usual[table]
        if isinstance(values, dict) and isinstance(before, dict):
            for key, value in values.items():
                if value != before[key] and f"{table}.{key}" not in _TOLD_ELSEWHERE:
                    yield f"{table}.{key} = {value}"


def _reading(run: Run) -> Iterator[str]:
    """Yield how the trace was read and replayed, where that changes the trace."""
    receipt, source = run.trace.receipt, run.source
    if receipt is not None:
        yield f"{receipt.path} ({receipt.format})"
        for word in ("skipped", "clipped", "failed"):
            count = sum(rows for rows, _ in getattr(receipt, word).values())
            if count:
                yield f"{counted(count, 'row')} {word}"
    options = {} if source is None else source.options
    for name, value in (options | run.options.to_dict()).items():
        if name not in _CHANGES_NOTHING and value not in _USUAL:
            yield name.replace("_", " ") + ("" if value is True else f" {value}")
