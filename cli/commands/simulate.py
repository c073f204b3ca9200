"""``kvsim simulate TRACE``: replay a trace, print one table, write the run folder."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.cli.options.completion import FILES, HARDWARE, MODELS, PRESETS
from kvsim.cli.options.perfetto_option import add_perfetto_options, perfetto_file
from kvsim.cli.options.pool_options import add_pool_options, pool_values
from kvsim.cli.options.record_options import add_record_options, record_options
from kvsim.cli.options.trace_options import (
    add_loop_options,
    add_reading_options,
    add_run_option,
    read_with_options,
    reading_options,
    run_options,
)
from kvsim.cli.options.watch_option import add_watch_options, check_watch, watching
from kvsim.cli.text.colour import print_lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kvsim.sim.block_map import RecordOptions
    from kvsim.sim.engine.observer import Observer
    from kvsim.sim.run.options import RunOptions
    from kvsim.sim.run.run import Run
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.traces.trace.trace import Trace


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "simulate",
        help="replay a trace and show memory, throughput and latency",
        description="Replay a request trace under a scenario. Print one table (or JSON) and "
        "write a run folder: manifest, summary, tables by request and by time "
        "window, and a report.",
    )
    trace = parser.add_argument("trace", metavar="TRACE", help="file in any format kvsim reads")
    trace.complete = FILES  # type: ignore[attr-defined]  # read by shtab
    add_scenario_options(parser.add_argument_group("scenario"))
    add_pool_options(parser)
    add_trace_options(parser.add_argument_group("trace"))
    _add_run_options(parser.add_argument_group("run"))
    parser.set_defaults(handler=run)


def add_scenario_options(group: argparse._ArgumentGroup) -> None:
    """Declare what picks and changes the scenario; ``kvsim plan`` has the same."""
    scenario = group.add_argument(
        "--scenario", metavar="FILE|PRESET", help="TOML file, or a preset such as vllm-0.12"
    )
    model = group.add_argument("--model", help="bundled name or config.json (default llama-3.1-8b)")
    hardware = group.add_argument(
        "--hardware", help="bundled name or JSON of a card (default h100-sxm)"
    )
    for option, names in ((scenario, PRESETS), (model, MODELS), (hardware, HARDWARE)):
        option.complete = names  # type: ignore[attr-defined]  # read by shtab
    group.add_argument(
        "--set",
        metavar="TABLE.KEY=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="change one key of the scenario; may be repeated",
    )


def add_trace_options(group: argparse._ArgumentGroup, *, several_rates: bool = False) -> None:
    """Declare how the trace is read and replayed; ``kvsim compare`` has the same."""
    add_reading_options(group)
    add_loop_options(group)
    add_run_option(group, "rate_scale", metavar="X,Y,..." if several_rates else "X")
    add_run_option(group, "timeout", metavar="TIME")
    add_run_option(group, "assume_max_tokens", metavar="RULE")


def _add_run_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--out",
        metavar="DIR",
        help="new folder for the run (default kvsim-runs/TIME-TRACE; report and explain use the "
        "latest of those)",
    )
    add_record_options(group)
    add_run_options(group)
    add_perfetto_options(group)
    add_watch_options(group)


def add_run_options(group: argparse._ArgumentGroup) -> None:
    """Declare how to run and what to print; ``kvsim compare`` has the same."""
    group.add_argument("--slo", metavar="ttft=2s,tpot=50ms", help="latency limits for goodput")
    add_run_option(group, "seed", type=int)
    add_run_option(group, "step")
    add_run_option(group, "audit")
    group.add_argument("--json", action="store_true", help="print the summary as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Simulate and print; the exit code is 130 where Ctrl-C ended the run early."""
    from kvsim.sim.block_map.places.base import check_drawable
    from kvsim.sim.folders.place import check_result_place, result_folder
    from kvsim.sim.run.folder import to_json, write_run
    from kvsim.sim.scenario.setup import set_up
    from kvsim.traces.common.ctrl_c import ctrl_c_delayed

    out = None if arguments.out is None else Path(arguments.out)
    check_result_place(out)
    scenario, record = scenario_of(arguments), record_options(arguments)
    options = run_options(arguments)
    config = set_up(scenario).config
    check_watch(arguments)
    perfetto = perfetto_file(arguments, out)
    trace = read_with_options(arguments.trace, arguments)
    if record is not None:
        check_drawable(config, trace)
    with result_folder(out, trace.name) as folder:
        observers: list[Observer] = [] if perfetto is None else [perfetto.timeline]
        with watching(arguments, scenario) as watch:
            observers += watch
            result = _simulated(trace, scenario, options, arguments, observers, record)
        with ctrl_c_delayed():
            with folder.filled() as draft:
                write_run(result, draft)
            drawn = None if perfetto is None else perfetto.write(result)
            if arguments.json:
                print(to_json(result.summary.to_dict()), end="")
            else:
                _print_table(arguments, result, folder.path, drawn)
    return 130 if result.engine.partial else 0


def _simulated(
    trace: Trace,
    scenario: Scenario,
    options: RunOptions,
    arguments: argparse.Namespace,
    observers: Sequence[Observer],
    record: RecordOptions | None,
) -> Run:
    """Simulate as the options say, with a progress bar."""
    from kvsim.cli.text.progress import Progress
    from kvsim.sim.block_map import BlockRecording, PoolFacts
    from kvsim.sim.documents.manifest import TraceSource
    from kvsim.sim.run.drive import Watchers
    from kvsim.sim.run.run import simulate_as

    recording = None if record is None else BlockRecording(record)
    with Progress("requests", wanted=not arguments.watch) as progress:
        watchers = Watchers(progress, recording, observers=observers)
        result = simulate_as(trace, scenario, options, watchers)
    if recording is not None:
        facts = PoolFacts.of(result, scenario.preset, recording.options.most_cells)
        result = replace(result, block_map=recording.block_map(facts))
    source = TraceSource(path=arguments.trace, options=reading_options(arguments))
    return replace(result, source=source)


def scenario_of(arguments: argparse.Namespace) -> Scenario:
    """Scenario of the options: file or preset, then the named options, then ``--set``."""
    from kvsim.sim.scenario.loader import load_scenario
    from kvsim.sim.scenario.scenario import DEFAULT_PRESET

    return with_options(load_scenario(arguments.scenario or DEFAULT_PRESET), arguments)


def with_options(scenario: Scenario, arguments: argparse.Namespace) -> Scenario:
    """Scenario changed by the named options, then by ``--set``."""
    from kvsim.sim.scenario.loader import parse_settings

    names = {"model.name": arguments.model, "hardware.name": arguments.hardware}
    values: dict[str, object] = {path: name for path, name in names.items() if name is not None}
    values |= pool_values(arguments) | _slo_values(arguments.slo)
    return scenario.with_values(values).with_values(parse_settings(arguments.settings))


def _slo_values(text: str | None) -> dict[str, object]:
    values: dict[str, object] = {}
    for part in text.split(",") if text is not None else ():
        name, equals, limit = part.partition("=")
        if not equals:
            raise ValueError(f"--slo {text!r} is not of the form ttft=2s,tpot=50ms,e2e=30s")
        values[f"slo.{name.strip()}"] = limit.strip()
    return values


def named_lines(arguments: argparse.Namespace, scenario: Scenario) -> list[str]:
    """Lines that tell which of preset, model and hardware were given and which are defaults.

    A scenario file or ``--set`` gives a name as much as its option does.
    """
    from kvsim.cli.text.table import wrapped
    from kvsim.sim.scenario.loader import load_scenario
    from kvsim.sim.scenario.scenario import DEFAULT_PRESET

    default, source = load_scenario(DEFAULT_PRESET), arguments.scenario
    given: list[str] = []
    defaults: list[str] = []
    if source is not None and source != scenario.preset:
        given.append(f"scenario {source}")
    for what, name, usual, option in (
        ("preset", scenario.preset, default.preset, source if source == scenario.preset else None),
        ("model", scenario.model.name, default.model.name, arguments.model),
        ("hardware", scenario.hardware.name, default.hardware.name, arguments.hardware),
    ):
        (defaults if option is None and name == usual else given).append(f"{what} {name}")
    lines = []
    for label, group in (("given:", given), ("defaults:", defaults)):
        if group:
            lines += wrapped(label, ", ".join(group), first_width=len(label) + 1)
    return lines


def report_lines(folder: Path, *, recorded: bool) -> list[str]:
    """Lines that tell what to open, and how to draw what ``--record blocks`` kept."""
    from kvsim.cli.text.table import wrapped
    from kvsim.sim.folders.place import REPORT

    lines = wrapped("report", f"{folder / REPORT}: open it in a browser")
    if recorded:
        lines += wrapped("block map", f"kvsim report {shlex.quote(str(folder))} --block-map")
    return lines


def _print_table(
    arguments: argparse.Namespace, result: Run, folder: Path, drawn: str | None
) -> None:
    from kvsim.cli.text.sparkline import over_time_lines
    from kvsim.cli.text.summary_table import summary_lines
    from kvsim.cli.text.table import wrapped
    from kvsim.sim.metrics.tables import series_table
    from kvsim.sim.scenario.preset import verification

    lines = named_lines(arguments, result.scenario)
    if (verified := verification(result.scenario)) is not None:
        lines += wrapped(f"rules of {result.scenario.preset}", verified)
    over_time = over_time_lines(series_table(result.engine.recorder, result.setup.pool))
    lines += summary_lines(result.summary, result.setup.pool_terms, over_time)
    lines += ["", *wrapped("run folder", str(folder))]
    lines += report_lines(folder, recorded=arguments.record is not None)
    if drawn is not None:
        lines += wrapped("timeline", drawn)
    print_lines(lines)
