"""``kvsim compare TRACE``: one trace under several scenarios, one table."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.cli.completion import FILES
from kvsim.cli.pool_options import add_pool_options
from kvsim.cli.simulate import (
    add_run_options,
    add_scenario_options,
    add_trace_options,
    check_trace_options,
    scenario_of,
    with_options,
)
from kvsim.cli.trace_options import is_closed, read_with_options

if TYPE_CHECKING:
    import argparse

    from kvsim.sim.comparison import Comparison
    from kvsim.sim.scenario import Scenario
    from kvsim.traces.trace import Trace


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "compare",
        help="replay a trace under several allocators or settings, side by side",
        description="Replay the same trace, with the same arrivals, lengths and seed, under "
        "several scenarios that get the same memory for KV; print one table (or JSON).",
    )
    trace = parser.add_argument("trace", metavar="TRACE", help="file in any format kvsim reads")
    trace.complete = FILES  # type: ignore[attr-defined]  # read by shtab
    scenario = parser.add_argument_group("scenario")
    scenario.add_argument(
        "--allocators",
        metavar="A,B,...",
        help="presets, or paged (vllm-0.32 without prefix caching) and prefix (vllm-0.32)",
    )
    scenario.add_argument(
        "--vary",
        metavar="TABLE.KEY=A,B,...",
        action="append",
        default=[],
        help="run with each value of a key; repeated: with each combination",
    )
    add_scenario_options(scenario)
    add_pool_options(parser)
    add_trace_options(parser.add_argument_group("trace"))
    group = parser.add_argument_group("run")
    group.add_argument("--out", metavar="DIR", help="folder for comparison.json (default: none)")
    group.add_argument(
        "--jobs", type=int, metavar="N", help="processes at a time (default: one a CPU)"
    )
    add_run_options(group)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Compare and print."""
    from kvsim.cli.compare_table import comparison_lines
    from kvsim.sim.comparison import SCHEMA
    from kvsim.sim.comparison_file import write_comparison
    from kvsim.sim.ctrl_c import ctrl_c_delayed
    from kvsim.sim.run_folder import to_json
    from kvsim.sim.run_place import check_comparison_folder, run_folder_made

    if arguments.jobs is not None and arguments.jobs < 1:
        raise ValueError(f"--jobs is {arguments.jobs}; it must be at least 1")
    folder = None if arguments.out is None else Path(arguments.out)
    check = partial(check_comparison_folder, schema=SCHEMA)
    if folder is not None:
        check(folder)
    check_trace_options(arguments)
    scenarios = scenarios_of(arguments)
    trace = read_with_options(arguments.trace, arguments)
    with nullcontext() if folder is None else run_folder_made(folder, check):
        result = _compared(trace, scenarios, arguments)
        with ctrl_c_delayed():
            if folder is not None:
                write_comparison(result, folder)
            if arguments.json:
                print(to_json(result.to_json()), end="")
            else:
                print("\n".join(comparison_lines(result)))
    return 0


def scenarios_of(arguments: argparse.Namespace) -> dict[str, Scenario]:
    """Scenarios by name: allocators (else the one scenario of the options) x varied keys."""
    from kvsim.sim.compared_scenarios import allocator_scenarios, compared, varied_values

    if arguments.allocators is None and not arguments.vary:
        raise ValueError("there is nothing to compare: give --allocators, --vary or both")
    if arguments.allocators is not None and arguments.scenario is not None:
        raise ValueError("--allocators and --scenario both name scenarios: give one of them")
    if arguments.allocators is None:
        bases = {"": scenario_of(arguments)}
    else:
        named = allocator_scenarios(arguments.allocators)
        bases = {name: with_options(scenario, arguments) for name, scenario in named.items()}
    return compared(bases, varied_values(arguments.vary))


def _compared(
    trace: Trace, scenarios: dict[str, Scenario], arguments: argparse.Namespace
) -> Comparison:
    from kvsim.cli.progress import Progress
    from kvsim.sim.comparison import compare

    with Progress("runs") as progress:
        return compare(
            trace,
            scenarios,
            jobs=arguments.jobs,
            step=arguments.step,
            audit=arguments.audit,
            seed=arguments.seed,
            rate_scale=arguments.rate_scale,
            assume_max_tokens=arguments.assume_max_tokens,
            closed=is_closed(arguments),
            think_time=arguments.think_time,
            num_users=arguments.users,
            timeout=arguments.timeout,
            on_progress=progress,
        )
