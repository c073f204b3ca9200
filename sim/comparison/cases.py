"""Cases of a comparison: each scenario on each trace at each rate, checked before any run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.block_map.places.base import check_drawable
from kvsim.sim.comparison.runs import Case
from kvsim.sim.folders.place import row_blocks
from kvsim.sim.scenario.setup import set_up
from kvsim.traces.adjust.rate_scale import parse_rate_scale
from kvsim.traces.trace.prefix import shared_prefix_is_lower_bound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kvsim.sim.block_map import RecordOptions
    from kvsim.sim.run.options import Rate
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.traces.trace.trace import Trace


def cases_of(
    scenarios: Mapping[str, Scenario],
    traces: Sequence[Trace],
    rates: Sequence[Rate],
    *,
    record: RecordOptions | None = None,
    blocks: Path | None = None,
) -> list[Case]:
    """Return a case for each row, in the order of scenarios, then traces, then rates.

    Raises
    ------
    ValueError
        When there is nothing to compare, two rows have the same name, a row cannot be compared, or,
        with ``record``, a row cannot be drawn.
    """
    for trace in traces:
        _check_block_sizes(trace, scenarios)
        if record is not None:
            _check_drawable(trace, scenarios)
    scales = [str(parse_rate_scale(str(rate))) for rate in rates]
    if len(set(scales)) < len(scales):
        raise ValueError(f"rate scales {', '.join(scales)}: one is there twice; name each once")
    cases = _named(scenarios, traces, scales)
    if not cases:
        what = "scenarios" if not scenarios else "traces" if not traces else "rate scales"
        raise ValueError(f"there is nothing to compare: {what} is empty; give at least one")
    if record is None or blocks is None:
        return cases
    return [
        case._replace(record=record, blocks=blocks / row_blocks(number))
        for number, case in enumerate(cases, 1)
    ]


def _named(
    scenarios: Mapping[str, Scenario], traces: Sequence[Trace], scales: Sequence[str]
) -> list[Case]:
    """Return cases named by the scenario and, if there are several, by trace and rate."""
    cases = []
    for name, scenario in scenarios.items():
        if not name:
            raise ValueError("a scenario is called '': give it a name, which its row is found by")
        for place, one in enumerate(traces):
            for scale in scales:
                words = [name]
                words += [one.name] if len(traces) > 1 else []
                words += [f"rate x {scale}"] if len(scales) > 1 else []
                cases.append(Case(", ".join(words), scenario, place, scale))
    names: set[str] = set()
    for case in cases:
        if case.name in names:
            raise ValueError(
                f"two rows are called {case.name!r}: give each trace and scenario its own name"
            )
        names.add(case.name)
    return cases


def _check_block_sizes(trace: Trace, scenarios: Mapping[str, Scenario]) -> None:
    """Refuse a sweep of block sizes that are smaller than the blocks of the trace's ids."""
    if trace.prefix is None:
        return
    configs = [set_up(scenario).config for scenario in scenarios.values()]
    caching = [config for config in configs if config.enable_prefix_caching]
    named = trace.prefix.block_size
    for index in ("hash", "radix"):
        sizes = sorted({config.block_size for config in caching if config.allocator.index == index})
        if len(sizes) > 1 and shared_prefix_is_lower_bound(named, sizes[0]):
            raise ValueError(
                f"block sizes {', '.join(map(str, sizes))} cannot be compared on {trace.name}: its "
                f"ids name {named} tokens, so below {named} a hit rate says nothing of the block "
                f"size; take multiples of {named}, or one size"
            )


def _check_drawable(trace: Trace, scenarios: Mapping[str, Scenario]) -> None:
    """Refuse to record if a row cannot be drawn; the error names the row."""
    for name, scenario in scenarios.items():
        try:
            check_drawable(set_up(scenario).config, trace)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
