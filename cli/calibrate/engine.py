"""``kvsim calibrate engine LOG``: the step form, o0 and o1 from a serving log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvsim.cli.text.colour import harmless

if TYPE_CHECKING:
    import argparse

    from kvsim.calibrate.engine_logs.engine_log import StepForm
    from kvsim.calibrate.engine_logs.measured_run import MeasuredRun
    from kvsim.calibrate.engine_logs.step_sample import Loads
    from kvsim.sim.cost.profile import HoldOut, Profile

_TERMS: Final = (
    ("a step", "ms", 1e3),
    ("a token", "us", 1e6),
    ("a decode, beside its token", "us", 1e6),
    ("a context token", "ns", 1e9),
    ("a query-key pair of prefill", "ns", 1e9),
)


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = kinds.add_parser(
        "engine",
        help="fit the step cost to the log of a running engine",
        description="Fit the step cost to a log with times of steps, tokens or requests: a "
        "step log, a recorded schedule, LLMServingSim's requests.jsonl, vllm bench "
        "serve --save-detailed, AIPerf's profile_export.jsonl. With --profile, fit "
        "only the overhead that the kernels of the profile do not explain (o0, "
        "o1). See docs/calibration.md.",
    )
    parser.add_argument("log", metavar="LOG", help="log, or its folder")
    parser.add_argument(
        "--profile", metavar="NAME|FILE", help="profile of the kernels; fit only the overhead"
    )
    parser.add_argument("--trace", metavar="TRACE", help="the same requests with prefix ids")
    parser.add_argument("--model", help="model of the log (default: as the log says)")
    parser.add_argument("--hardware", help="card of the log (default: as the log says)")
    parser.add_argument("--out", metavar="FILE", help="write a profile")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Read, fit, print, write."""
    from kvsim.calibrate.engine_logs.run_logs import read_measured
    from kvsim.sim.cost.profile_file import dump_profile
    from kvsim.traces.common.files import check_file, write_file

    if arguments.out is not None:
        check_file(Path(arguments.out))
    measured = read_measured(Path(arguments.log))
    names = {
        key: getattr(arguments, key) or measured.scenario.get(f"{key}.name")
        for key in ("model", "hardware")
    }
    if (arguments.out or arguments.profile) and not all(names.values()):
        missing = " and ".join(f"--{key}" for key, name in names.items() if name is None)
        raise ValueError(f"{arguments.log} does not say what ran where: give {missing}")
    profile = (
        _overhead(measured, arguments, names)
        if arguments.profile
        else _step_form(measured, arguments, names)
    )
    if arguments.out is not None and profile is not None:
        write_file([dump_profile(profile)], Path(arguments.out))
        print(f"profile written to {arguments.out}")
    return 0


def _step_form(
    measured: MeasuredRun, arguments: argparse.Namespace, names: dict[str, str | None]
) -> Profile | None:
    """Fit the whole form; the profile, where one is asked for."""
    from dataclasses import replace

    from kvsim.calibrate.engine_logs.engine_log import fit_steps, hold_out, loads_of, profile_of
    from kvsim.calibrate.sources.layer_shapes import reference_profile

    loads = loads_of(measured)
    first, second = loads.halves()
    tried, form = fit_steps(first), fit_steps(loads, measured.steps)
    print(harmless("\n".join(_lines(measured, form, loads, hold_out(tried, second)))))
    if arguments.out is None:
        return None
    base = reference_profile(str(names["model"]), str(names["hardware"]))
    name = Path(arguments.out).name.partition(".")[0]
    return replace(
        profile_of(form, base, name, f"{measured.source}, log {measured.name}"),
        hold_out={"step": hold_out(tried, second)},
    )


def _lines(measured: MeasuredRun, form: StepForm, loads: Loads, unseen: HoldOut) -> list[str]:
    from kvsim.cli.text.table import table, wrapped
    from kvsim.traces.common.text import counted, number

    rows = "steps" if measured.steps else "steps, between tokens"
    if not measured.steps and measured.token_times_s is None:
        rows = "requests, each its mean gap between tokens"
    cells = [["term", "", "fitted", "+-"]]
    for (label, unit, scale), value, error in zip(
        _TERMS, form.coefficients, form.standard_errors, strict=True
    ):
        cells.append([label, unit, number(value * scale), number(error * scale)])
    host = form.host_s
    cells += [
        ["o0, a step", "us", number(host[0] * 1e6) if host else "-", ""],
        ["o1, a request", "us", number(host[1] * 1e6) if host else "-", ""],
    ]
    lines = [
        *wrapped("log", f"{measured.source}, {counted(len(measured), 'request')}"),
        *wrapped("fitted to", f"{len(loads)} {rows}"),
        "",
        *table(cells, first_width=32),
        "",
        *wrapped(
            "held out",
            f"{100 * unseen.median:.1f} % median, {100 * unseen.p90:.1f} % p90 on the second half, "
            "from a fit of the first",
        ),
        *wrapped("condition number", number(form.condition)),
    ]
    if host is None:
        text = "inside the terms above: the log has no host times (--profile tells them apart)"
        lines += wrapped("o0, o1", text)
    if form.moves_together:
        text = (
            "batch, context and tokens moved together in this log, so single terms mean little "
            "outside it; kvsim calibrate endpoint sweeps them apart"
        )
        lines += wrapped("warning", text)
    return lines


def _overhead(
    measured: MeasuredRun, arguments: argparse.Namespace, names: dict[str, str | None]
) -> Profile:
    """Fit what the profile's kernels leave over; the profile with it."""
    from dataclasses import replace

    from kvsim.calibrate.validate.measured_replay import engine_values, replay_trace
    from kvsim.calibrate.validate.overhead import overhead_by_replay, overhead_of_steps
    from kvsim.sim.cost.profile import HostTerm
    from kvsim.sim.cost.profile_cost import ProfileCost
    from kvsim.sim.cost.sources import find_profile
    from kvsim.sim.hardware import load_hardware
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.sim.scenario.setup import set_up
    from kvsim.traces import read_trace
    from kvsim.traces.common.text import counted

    values = {"model.name": names["model"], "hardware.name": names["hardware"]}
    scenario = Scenario.load().with_values(
        {**values, **engine_values(measured), "cost.source": arguments.profile}
    )
    setup = set_up(scenario)
    profile = find_profile(arguments.profile, load_hardware(str(names["hardware"])))
    assert isinstance(setup.cost, ProfileCost)
    if measured.steps:
        base_us, request_us = overhead_of_steps(measured.steps, setup.cost)
        print(f"o0 {base_us:.1f} us a step, o1 {request_us:.2f} us a request")
        print(harmless(f"fitted to {len(measured.steps)} steps beside {setup.cost.name}"))
        return replace(profile, host=HostTerm(base_us, request_us))
    if not measured.engine:
        raise ValueError(
            f"{arguments.log} has neither steps nor engine options: its overhead cannot be fitted "
            "by replaying it"
        )
    ids = None if arguments.trace is None else read_trace(arguments.trace)
    trace = replay_trace(measured, ids)
    base_us = overhead_by_replay(measured, trace, setup.config, setup.cost)
    print(f"o0 {base_us:.0f} us a step that nothing hides; o1 is not told apart")
    print(f"the replay of {counted(len(measured), 'request')} then has the measured mean TPOT")
    print(harmless(f"beside {setup.cost.name}"))
    head = profile.head.later(base_us)
    note = f"head holds {base_us:.0f} us a step of overhead fitted to {measured.name}"
    return replace(profile, host=HostTerm(0.0), head=head, assumed=(*profile.assumed, note))
