"""``kvsim trace synth OUT``: make a trace up, from laws or from tables of public traces."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

from kvsim.cli.options.trace_options import check_seed
from kvsim.cli.trace.convert import add_output, write_output
from kvsim.cli.trace.input import add_seed

if TYPE_CHECKING:
    import argparse

    import numpy as np
    from numpy.typing import NDArray

    from kvsim.traces.reading.drawn import ArrivalRule
    from kvsim.traces.synth.length_laws import LengthLaw
    from kvsim.traces.synth.presets import Preset
    from kvsim.traces.synth.workload import Workload

CHAT: Final = "chat-service"
"""The preset that is the generator of the bundled trace."""
_SYSTEM: Final = re.compile(r"([0-9]{1,4})x([0-9]{1,8})")
_KS_99: Final = 1.628
"""99 % of true samples of n lie within this / sqrt(n) of their law."""


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "synth",
        help="make a trace up",
        description="Generate a trace from a seed. Length distributions: N, "
        "lognormal(mean=M,sigma=S), table(FILE.json) with pairs [tokens, "
        "probability]. See docs/traces.md.",
    )
    add_output(parser, optional=True)
    parser.add_argument("--requests", type=int, default=1_000, metavar="N", help="default 1000")
    add_seed(parser)
    group = parser.add_argument_group("lengths")
    group.add_argument(
        "--preset", help=f"lengths and rate of a public trace, or {CHAT}; list: --preset list"
    )
    group.add_argument("--like", metavar="FILE", help="lengths and rate of a file you have")
    group.add_argument(
        "--prompt", metavar="LAW", help="distribution of prompt lengths (new text of each turn)"
    )
    group.add_argument("--output", metavar="LAW", help="distribution of output lengths")
    group = parser.add_argument_group("arrivals of sessions")
    group.add_argument(
        "--arrivals", metavar="LAW", help="poisson, gamma(cv=X), weibull(shape=X), rate=R"
    )
    group.add_argument("--rate", metavar="R", help="sessions per second, on average")
    group.add_argument(
        "--diurnal",
        type=float,
        metavar="A",
        help="amplitude of the daily change of the rate, 0 to 1",
    )
    group.add_argument(
        "--day", type=float, default=86_400, metavar="S", help="length of a day in s"
    )
    _add_session_options(parser.add_argument_group("sessions"))
    parser.set_defaults(handler=run)


def _add_session_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--system-prompts", metavar="KxT,...", help="K shared prompts of T tokens: 3x500,1x2000"
    )
    group.add_argument("--turns", type=float, default=1.0, metavar="M", help="mean number of turns")
    group.add_argument(
        "--sub-agents", type=int, default=0, metavar="N", help="sub-agents after each turn"
    )
    group.add_argument(
        "--agent-turns",
        type=float,
        default=3.0,
        metavar="M",
        help="mean number of turns of a sub-agent",
    )
    group.add_argument(
        "--think", type=float, default=24.0, metavar="S", help="median pause between turns, s"
    )
    group.add_argument(
        "--block-tokens", type=int, default=16, metavar="N", help="tokens of each id (default 16)"
    )
    group.add_argument(
        "--users", type=int, default=0, metavar="N", help="assign the sessions to N users"
    )
    group.add_argument(
        "--user-skew",
        type=float,
        default=0.0,
        metavar="A",
        help="user k of 1 to N starts sessions in proportion to 1 / k^A (default 0: all equal)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Draw, write, and say how well the lengths fit their laws."""
    import numpy as np

    check_seed(arguments.seed)
    if arguments.preset == "list":
        print("\n".join(_preset_lines()))
        return 0
    if arguments.out is None:
        raise ValueError("where to? Name a file OUT: .csv, .jsonl or .parquet (.gz, .zst)")
    if arguments.preset == CHAT:
        from kvsim.traces.synth.synth import ChatService, synthesize_chat

        _check_alone(arguments)
        if arguments.requests < 1:
            raise ValueError(f"--requests is {arguments.requests}; allowed are numbers from 1")
        service = ChatService(num_requests=arguments.requests)
        trace = synthesize_chat(np.random.default_rng(arguments.seed), service)
        write_output(trace, arguments)
        return 0
    from kvsim.traces.synth.workload import make_up

    preset = _preset(arguments)
    workload = _workload(arguments, preset)
    made = make_up(workload, arguments.seed, preset.name if preset else "made-up")
    write_output(made.trace, arguments)
    if preset is not None:
        _print_source(preset)
    _print_fit(
        "prompt" if made.trace.turn is None else "new text", made.text_tokens, workload.prompt
    )
    _print_fit("output", made.trace.output_tokens, workload.output)
    return 0


def _preset(arguments: argparse.Namespace) -> Preset | None:
    from kvsim.traces import read_trace
    from kvsim.traces.synth.presets import find_preset, fit

    if arguments.like is not None:
        if arguments.preset is not None:
            raise ValueError("--preset and --like contradict: leave one of them out")
        trace = read_trace(arguments.like, keep_unusable=True)
        return fit(trace, trace.name, f"the file {arguments.like}")
    return find_preset(arguments.preset) if arguments.preset is not None else None


def _workload(arguments: argparse.Namespace, preset: Preset | None) -> Workload:
    from kvsim.traces.synth.workload import Rhythm, Workload

    if arguments.user_skew and not arguments.users:
        raise ValueError(
            f"--user-skew is {arguments.user_skew:g} and nobody is named: add --users N"
        )
    return Workload(
        num_requests=arguments.requests,
        prompt=_law("prompt", arguments.prompt, preset),
        output=_law("output", arguments.output, preset),
        arrivals=_arrivals(arguments, preset),
        rank_correlation=preset.rank_correlation if preset is not None else 0.0,
        rhythm=None if arguments.diurnal is None else Rhythm(arguments.diurnal, arguments.day),
        system_tokens=_system_tokens(arguments.system_prompts),
        mean_turns=arguments.turns,
        think_s=(_positive("--think", arguments.think), 0.55),
        sub_agents=arguments.sub_agents,
        mean_agent_turns=arguments.agent_turns,
        block_tokens=arguments.block_tokens,
        num_users=arguments.users,
        user_skew=arguments.user_skew,
    )


def _law(which: str, text: str | None, preset: Preset | None) -> LengthLaw:
    from kvsim.traces.synth.length_laws import parse_law

    if text is not None:
        return parse_law(text, f"--{which}")
    if preset is None:
        raise ValueError(f"no law of lengths: give --preset, --like, or --{which} LAW")
    return preset.prompt if which == "prompt" else preset.output


def _arrivals(arguments: argparse.Namespace, preset: Preset | None) -> ArrivalRule:
    """The law asked for; else that of the preset's gaps; else Poisson."""
    from kvsim.traces.reading.drawn import ArrivalRule, arrival_rule

    rule = arrival_rule(arguments.arrivals, arguments.rate)
    rate = rule.rate_per_s if rule is not None else None
    if rule is None or arguments.arrivals is None:
        variation = preset.gap_cv if preset is not None else None
        rule = ArrivalRule("gamma", rate, variation) if variation else ArrivalRule("poisson", rate)
    if rate is None and preset is not None and preset.rate_per_s:
        return rule.at(preset.rate_per_s)
    if rate is None:
        raise ValueError("how often do sessions start? Give --rate R, sessions per second")
    return rule


def _positive(option: str, value: float) -> float:
    if not 0 < value < 1e9:
        raise ValueError(f"{option} is {value:g}; allowed are numbers above 0")
    return value


def _system_tokens(text: str | None) -> tuple[int, ...]:
    tokens: list[int] = []
    for part in text.split(",") if text is not None else ():
        match = _SYSTEM.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"--system-prompts is {text!r}; it has the form KxT, such as 3x500")
        tokens += [int(match[2])] * int(match[1])
    return tuple(tokens)


def _check_alone(arguments: argparse.Namespace) -> None:
    """The chat service brings all its laws: refuse options that would be ignored."""
    defaults: dict[str, Any] = {"turns": 1.0, "sub_agents": 0, "users": 0, "user_skew": 0.0}
    for name in ("like", "prompt", "output", "arrivals", "rate", "diurnal", "system_prompts",
                 "turns", "sub_agents", "users", "user_skew"):  # fmt: skip
        if getattr(arguments, name) != defaults.get(name):
            option = name.replace("_", "-")
            raise ValueError(f"--preset {CHAT} says all laws itself: leave --{option} out")


def _preset_lines() -> list[str]:
    from kvsim.cli.text.table import wrapped
    from kvsim.traces.synth.presets import load_presets

    lines = []
    for name, preset in load_presets().items():
        lines += wrapped(name, f"{preset.source} ({preset.rows:,} rows)")
    return [*lines, *wrapped(CHAT, "the made-up chat service of the bundled trace chat-2k")]


def _print_source(preset: Preset) -> None:
    from kvsim.cli.text.table import wrapped

    text = f"{preset.source}: {preset.rows:,} rows, from which its tables lie within KS "
    text += f"{preset.fit_prompt_ks:.4f} (prompts) and {preset.fit_output_ks:.4f} (outputs)"
    print("\n".join(wrapped("fitted to", text)))


def _print_fit(what: str, lengths: NDArray[np.int64], law: LengthLaw) -> None:
    from kvsim.cli.text.table import wrapped
    from kvsim.traces.synth.length_laws import distance

    found, bound = distance(lengths, law), _KS_99 / math.sqrt(len(lengths))
    text = f"KS distance {found:.4f} from its law; 99 % of true samples stay below {bound:.4f}"
    print("\n".join(wrapped(f"fit of {what}", text)))
