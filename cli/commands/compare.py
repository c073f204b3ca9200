"""``kvsim compare TRACE``: one trace under several scenarios, one table, document and page."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.cli.commands.simulate import (
    add_run_options,
    add_scenario_options,
    add_trace_options,
    report_lines,
    scenario_of,
    with_options,
)
from kvsim.cli.options.completion import FILES
from kvsim.cli.options.pool_options import add_pool_options
from kvsim.cli.options.record_options import add_record_options, record_options
from kvsim.cli.options.trace_options import check_seed, read_with_options, run_options
from kvsim.cli.text.colour import print_lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from kvsim.sim.block_map import RecordOptions
    from kvsim.sim.comparison.comparison import Comparison
    from kvsim.sim.comparison.presets import ComparisonPreset, Published
    from kvsim.sim.comparison.runs import Watch
    from kvsim.sim.run.options import RunOptions
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.traces.common.files import NewFolder
    from kvsim.traces.trace.trace import Trace


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "compare",
        help="replay a trace under several allocators or settings, side by side",
        description="Replay the same trace under several scenarios with the same KV memory. "
        "Arrivals, lengths and seed are the same. Print one table (or JSON).",
    )
    trace = parser.add_argument(
        "trace",
        metavar="TRACE",
        nargs="?",
        help="file in any format kvsim reads (omit it for a preset with its own trace)",
    )
    trace.complete = FILES  # type: ignore[attr-defined]  # read by shtab
    scenario = parser.add_argument_group("scenario")
    scenario.add_argument(
        "--preset",
        metavar="NAME",
        help="bundled comparison: levers, long-vs-short, sosp23-fig2, ... (kvsim list presets)",
    )
    scenario.add_argument(
        "--allocators",
        metavar="A,B,...",
        help="presets, or paged (vllm-0.32 without prefix caching), prefix (vllm-0.32), radix",
    )
    scenario.add_argument(
        "--vary",
        metavar="TABLE.KEY=A,B,...",
        action="append",
        default=[],
        help="run each value of a key; if repeated, run each combination",
    )
    add_scenario_options(scenario)
    add_pool_options(parser)
    add_trace_options(parser.add_argument_group("trace"), several_rates=True)
    group = parser.add_argument_group("run")
    group.add_argument(
        "--out", metavar="DIR", help="new folder for comparison.json and report.html"
    )
    group.add_argument(
        "--jobs", type=int, metavar="N", help="number of processes (default: one for each CPU)"
    )
    add_record_options(group)
    add_run_options(group)
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Compare and print."""
    from kvsim.cli.text.progress import Progress
    from kvsim.sim.comparison.own_kernels import with_own_kernels
    from kvsim.sim.comparison.presets import comparison_preset
    from kvsim.sim.folders.place import check_result_place, result_folder
    from kvsim.traces.common.ctrl_c import ctrl_c_delayed

    if arguments.jobs is not None and arguments.jobs < 1:
        raise ValueError(f"--jobs is {arguments.jobs}; it must be at least 1")
    out = None if arguments.out is None else Path(arguments.out)
    record = record_options(arguments)
    if record is not None and out is None:
        raise ValueError("--record blocks writes into a folder: give --out DIR")
    if out is not None:
        check_result_place(out)
    preset = None if arguments.preset is None else comparison_preset(arguments.preset)
    for rate in arguments.rate_scale.split(","):
        _options_at(arguments, rate)
    scenarios, note = with_own_kernels(scenarios_of(arguments, preset))
    traces = _traces(arguments, preset)
    with nullcontext() if out is None else result_folder(out, "") as folder:
        blocks = None if folder is None else folder.draft
        with Progress("requests") as progress:
            result = compared_runs(traces, scenarios, note, arguments, progress, record, blocks)
        published = None if preset is None else preset.published(result.rows)
        with ctrl_c_delayed():
            _write(result, published, folder, as_json=arguments.json, recorded=record is not None)
    return 0


def scenarios_of(
    arguments: argparse.Namespace, preset: ComparisonPreset | None
) -> dict[str, Scenario]:
    """Scenarios by name: those of a preset; else allocators (or the options') x varied keys."""
    from kvsim.sim.comparison.scenarios import (
        allocator_scenarios,
        checked,
        compared,
        varied_values,
    )

    if preset is not None:
        for option in ("allocators", "vary", "scenario"):
            if getattr(arguments, option):
                raise ValueError(f"--preset says what is compared: leave --{option} out")
        return checked(preset.scenarios(lambda scenario: with_options(scenario, arguments)))
    if arguments.allocators is None and not arguments.vary:
        raise ValueError("there is nothing to compare: give --allocators, --vary or a --preset")
    if arguments.allocators is not None and arguments.scenario is not None:
        raise ValueError("--allocators and --scenario both name scenarios: give one of them")
    if arguments.allocators is None:
        bases = {"": scenario_of(arguments)}
    else:
        named = allocator_scenarios(arguments.allocators)
        bases = {name: with_options(scenario, arguments) for name, scenario in named.items()}
    return compared(bases, varied_values(arguments.vary))


def _traces(arguments: argparse.Namespace, preset: ComparisonPreset | None) -> tuple[Trace, ...]:
    """The user's trace, or those that the preset makes."""
    made = () if preset is None else preset.traces(check_seed(arguments.seed))
    if not made:
        if arguments.trace is None:
            raise ValueError("which requests? Name a TRACE, such as traces/data/chat-2k.jsonl.gz")
        return (read_with_options(arguments.trace, arguments),)
    parser = ArgumentParser(add_help=False)
    add_trace_options(parser.add_argument_group())
    for name, default in vars(parser.parse_args([])).items():
        if getattr(arguments, name) != default:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"--preset {arguments.preset} makes its own requests: no {option}")
    if arguments.trace is not None:
        raise ValueError(f"--preset {arguments.preset} makes its own requests: leave TRACE out")
    return made


def compared_runs(
    traces: tuple[Trace, ...],
    scenarios: dict[str, Scenario],
    note: str,
    arguments: argparse.Namespace,
    on_progress: Callable[[int, int], None],
    record: RecordOptions | None,
    blocks: Path | None,
    watch: Watch | None = None,
) -> Comparison:
    """Run all scenarios as the options say.

    The rest as :func:`kvsim.sim.comparison.comparison.compare`.
    """
    from kvsim.sim.comparison.comparison import compare

    return compare(
        traces,
        scenarios,
        notes=(note,),
        jobs=arguments.jobs,
        rate_scale=arguments.rate_scale.split(","),
        on_progress=on_progress,
        record=record,
        watch=watch,
        blocks=blocks,
        keep_runs=False,
        **_options_at(arguments, "1").shared(),
    )


def _options_at(arguments: argparse.Namespace, rate: str) -> RunOptions:
    """Options of the runs at one of the rates."""
    return run_options(Namespace(**{**vars(arguments), "rate_scale": rate}))


def _write(
    result: Comparison,
    published: Published | None,
    folder: NewFolder | None,
    *,
    as_json: bool,
    recorded: bool,
) -> None:
    """Write the folder, then print the document or the table."""
    from kvsim.cli.text.compare_table import comparison_lines, published_lines
    from kvsim.sim.comparison.file import write_comparison
    from kvsim.sim.comparison.pages.page import comparison_page
    from kvsim.sim.run.folder import to_json

    document = result.to_dict(published)
    if folder is not None:
        with folder.filled() as draft:
            write_comparison(document, comparison_page(result, published), draft)
    if as_json:
        print(to_json(document), end="")
    elif published is not None:
        print_lines(published_lines(result, published))
    else:
        print_lines(comparison_lines(result))
    if folder is not None and not as_json:
        print_lines(["", *report_lines(folder.path, recorded=recorded)])
