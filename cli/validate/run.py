"""``kvsim validate run MEASURED``: replay a measured run and print ours beside theirs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse

    from kvsim.calibrate.engine_logs.measured_run import MeasuredRun
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.cost.profile_cost import ProfileCost
    from kvsim.sim.cost.step_cost import StepCost
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.traces.trace.trace import Trace

OVERHEAD_MS: Final = 0.3


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    from kvsim.cli.commands.simulate import add_scenario_options

    parser = kinds.add_parser(
        "run",
        help="replay a measured run and compare latencies, KV use and queue",
        description="Replay a measured run with its arrivals, lengths, engine options and "
        "number of blocks, and print TTFT, TPOT, ITL and E2E of both. A log with "
        "steps is replayed with the step cost fitted to its first half, unless "
        "--profile names another. See docs/validation.md.",
    )
    parser.add_argument(
        "measured", metavar="MEASURED", help="log of requests or steps, or its folder"
    )
    parser.add_argument(
        "--trace", metavar="TRACE", help="the same requests with the ids of their prefixes"
    )
    parser.add_argument(
        "--profile",
        metavar="NAME|FILE",
        help="step cost: a shipped profile, or the file of a profile",
    )
    parser.add_argument(
        "--overhead",
        type=float,
        metavar="MS",
        help="engine overhead of each step in ms, instead of the host terms of the profile "
        f"(default {OVERHEAD_MS}, assumed; the command also prints results for 0 "
        "and for twice the value)",
    )
    parser.add_argument("--html", metavar="FILE", help="write a page with both runs in each chart")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    add_scenario_options(parser.add_argument_group("scenario"))
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Replay, compare, print."""
    from kvsim.calibrate.engine_logs.run_logs import read_measured
    from kvsim.calibrate.validate.measured_replay import compare, replay, replay_trace
    from kvsim.calibrate.validate.replay_page import replay_page
    from kvsim.cli.text.replay_table import print_json, print_table
    from kvsim.traces import read_trace
    from kvsim.traces.common.files import check_file, write_file

    if arguments.html is not None:
        check_file(Path(arguments.html))
    measured = read_measured(Path(arguments.measured))
    ids = None if arguments.trace is None else read_trace(arguments.trace)
    trace = replay_trace(measured, ids)
    scenario = _scenario(measured, arguments)
    if measured.steps and arguments.profile is None:
        config, cost, notes = _own_cost(measured, trace, scenario, arguments)
        beside: list[str] = []
    else:
        config, cost, notes, beside = _profile_cost(measured, trace, scenario, arguments)
    ours = replay(trace, config, cost)
    notes = [*_head(measured, config, cost), *_ids_note(measured, arguments), *notes]
    rows = compare(measured, ours)
    if arguments.html is not None:
        write_file(replay_page(measured, ours, rows, notes), Path(arguments.html))
    if arguments.json:
        print_json(measured, ours, rows, notes)
    else:
        print_table(measured, ours, rows, notes, beside, arguments.html)
    return 0


def _scenario(measured: MeasuredRun, arguments: argparse.Namespace) -> Scenario:
    """Preset or file, then what the log says, then the options of the command line."""
    from kvsim.calibrate.validate.measured_replay import engine_values
    from kvsim.sim.scenario.loader import load_scenario, parse_settings
    from kvsim.sim.scenario.scenario import DEFAULT_PRESET

    values: dict[str, object] = {**measured.scenario, **engine_values(measured)}
    for key in ("model", "hardware"):
        if (name := getattr(arguments, key)) is not None:
            values[f"{key}.name"] = name
    if arguments.profile is not None:
        values["cost.source"] = arguments.profile
    scenario = load_scenario(arguments.scenario or DEFAULT_PRESET)
    return scenario.with_values(values).with_values(parse_settings(arguments.settings))


def _own_cost(
    measured: MeasuredRun, trace: Trace, scenario: Scenario, arguments: argparse.Namespace
) -> tuple[SchedulerConfig, StepCost, list[str]]:
    """Step cost of the first half of the log's steps; its error on the second half."""
    import numpy as np

    from kvsim.calibrate.engine_logs.engine_log import fit_steps
    from kvsim.calibrate.engine_logs.step_sample import loads_of_steps
    from kvsim.calibrate.validate.measured_replay import (
        engine_rules,
        first_difference,
        replay_schedule,
    )

    if arguments.overhead is not None:
        raise ValueError("--overhead goes with --profile: this log's steps have their overhead")
    half = len(measured.steps) // 2
    first, second = measured.steps[:half], measured.steps[half:]
    form = fit_steps(loads_of_steps(first), first)
    errors = form.errors(loads_of_steps(second)) * 100
    config = engine_rules(measured, scenario)
    cost = form.cost(f"step form fitted to the first {half} of {len(measured.steps)} steps")
    step = first_difference(measured, replay_schedule(trace, config, cost))
    notes = [
        f"step error: on the second half {np.median(errors):.1f} % median, "
        f"{np.percentile(errors, 90):.1f} % p90",
        f"schedule: identical, all {len(measured.steps)} steps"
        if step is None
        else f"schedule: differs from step {step} on, as its steps' times decide who joins when",
    ]
    wall = sum(step.wall_s or step.duration_s for step in measured.steps)
    busy = wall / sum(step.duration_s for step in measured.steps) - 1
    if busy > 0.01:
        notes.append(
            f"clock: its steps took {100 * busy:.1f} % longer than their CPU time; the fit is of "
            "CPU time, latencies are of the clock"
        )
    return config, cost, notes


def _profile_cost(
    measured: MeasuredRun, trace: Trace, scenario: Scenario, arguments: argparse.Namespace
) -> tuple[SchedulerConfig, ProfileCost, list[str], list[str]]:
    """Cost of the profile with an overhead; means at none and at twice as much beside."""
    from kvsim.calibrate.validate.measured_replay import compare, replay, with_overhead
    from kvsim.sim.cost.profile_cost import ProfileCost
    from kvsim.sim.scenario.setup import set_up

    _check_names(measured, arguments)
    setup = set_up(scenario)
    if not isinstance(setup.cost, ProfileCost):
        raise ValueError("validate run needs a profile: --profile NAME|FILE, or the card's own")
    overhead_ms = OVERHEAD_MS if arguments.overhead is None else arguments.overhead
    if not 0 <= overhead_ms < 1000:
        raise ValueError(f"--overhead {overhead_ms} must be from 0 to 1000 ms")
    assumed = " (assumed)" if arguments.overhead is None else ""
    beside = []
    for other_ms in (0.0, 2 * overhead_ms) if overhead_ms else ():
        other = replay(trace, setup.config, with_overhead(setup.cost, other_ms * 1e3))
        means = ", ".join(
            f"{row.metric} {100 * row.error:+.1f} %"
            for row in compare(measured, other)
            if row.statistic == "mean" and row.error is not None
        )
        beside.append(f"{other_ms:g} ms a step: {means}")
    notes = [f"overhead: {overhead_ms:g} ms a step{assumed}"]
    notes += [f"note: {note}" for note in setup.notes]
    return setup.config, with_overhead(setup.cost, overhead_ms * 1e3), notes, beside


def _check_names(measured: MeasuredRun, arguments: argparse.Namespace) -> None:
    """Refuse to take a default for the model or card that was measured."""
    from kvsim.sim.scenario.preset import preset_names

    settings = " ".join(arguments.settings)
    missing = [
        f"--{key}"
        for key in ("model", "hardware")
        if getattr(arguments, key) is None
        and f"{key}.name" not in measured.scenario
        and f"{key}.name" not in settings
    ]
    if missing and (arguments.scenario is None or arguments.scenario in preset_names()):
        raise ValueError(
            f"{arguments.measured} does not say what ran where: give {' and '.join(missing)}"
        )


def _head(measured: MeasuredRun, config: SchedulerConfig, cost: StepCost) -> list[str]:
    from kvsim.traces.common.text import counted

    pool = f"{config.num_gpu_blocks:,} blocks of {config.block_size} tokens"
    switches = [
        name
        for name, value in (
            ("prefix caching", config.enable_prefix_caching),
            ("asynchronous scheduling", config.async_scheduling),
        )
        if value
    ]
    return [
        f"measured: {measured.source}, {counted(len(measured), 'request')}",
        f"simulated: {pool}, max_num_seqs {config.max_num_seqs}, max_num_batched_tokens "
        f"{config.max_num_batched_tokens}, {' and '.join(switches) or 'no prefix caching'}",
        f"cost: {cost.name}",
        f"TTFT, measured: {measured.ttft_boundary}",
        "TTFT, simulated: arrival in the engine to the end of the step with the first token",
    ]


def _ids_note(measured: MeasuredRun, arguments: argparse.Namespace) -> list[str]:
    if arguments.trace is None and not measured.shared_prefix_tokens:
        return ["prefixes: none shared, as the log has no tokens (--trace names a trace with ids)"]
    return []
