"""``kvsim plan``: what fits on a card, before anything is started."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.cli.commands.simulate import add_scenario_options
from kvsim.cli.options.completion import FILES
from kvsim.cli.options.pool_options import add_pool_options
from kvsim.cli.text.colour import harmless, print_lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kvsim.sim.documents.plan import LogFigure, Plan, SwapCost
    from kvsim.sim.pool.memory_terms import PoolRequest
    from kvsim.sim.pool.plan import Pool, PoolTooSmallError
    from kvsim.sim.pool.startup_log import StartupLog
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.traces.common.part import Document


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "plan",
        help="show what fits on a card",
        description="Show where a card's memory goes, what a token and a request take, and how "
        "many requests fit, by the rule of a named engine. docs/memory.md derives every figure.",
    )
    add_scenario_options(parser.add_argument_group("scenario"))
    add_pool_options(parser)
    group = parser.add_argument_group("plan")
    config = group.add_argument("--config", metavar="FILE", help="config.json in place of --model")
    group.add_argument("--engine", default="vllm", help="vllm (default), sglang or llama.cpp")
    group.add_argument("--pp", metavar="N", help="pipeline-parallel ranks")
    group.add_argument("--slots", metavar="N", help="llama.cpp: parallel slots (default: all fit)")
    group.add_argument(
        "--swap-space", metavar="SIZE", help="host memory for swap of each rank, in GiB"
    )
    trace = group.add_argument(
        "--trace",
        metavar="T",
        help="also show how many requests of this trace's mean and p95 length fit",
    )
    log = group.add_argument(
        "--match-log", metavar="FILE", help="vLLM start-up log to compare with the plan"
    )
    group.add_argument("--levers", action="store_true", help="effect of each option on KV memory")
    group.add_argument(
        "--html", metavar="FILE", help="write a page with the memory and the requests that fit"
    )
    group.add_argument("--json", action="store_true", help="print JSON")
    for option in (config, trace, log):
        option.complete = FILES  # type: ignore[attr-defined]  # read by shtab
    parser.set_defaults(handler=run, slo=None)


def run(arguments: argparse.Namespace) -> int:
    """Plan and print; 2 where not even one block fits."""
    from kvsim.cli.commands.plan_request import (
        check_html,
        plan_request,
        plan_scenario,
        read_log,
        trace_lengths,
    )
    from kvsim.sim.pool.document import plan_document
    from kvsim.sim.pool.plan import PoolTooSmallError, plan

    check_html(arguments)
    log = read_log(arguments)
    scenario = plan_scenario(arguments, log)
    request, notes = plan_request(arguments, scenario, log)
    try:
        if arguments.levers:
            return _show_levers(arguments, request)
        lengths = trace_lengths(arguments.trace)
        pool = plan(request)
    except PoolTooSmallError as error:
        return _show_too_small(arguments, scenario, request, error, [*notes, *_hint(log)])
    document = plan_document(
        request,
        pool,
        lengths,
        swap=_swap(scenario, request, pool),
        log=_match(request, pool, log),
        notes=notes,
    )
    _write_html(arguments, document, pool)
    if arguments.json:
        _print_json(document)
    else:
        from kvsim.cli.text.plan_table import plan_lines

        lines = _named(arguments, scenario) + plan_lines(document)
        print_lines(lines + _page_lines(arguments))
    return 0


def _swap(scenario: Scenario, request: PoolRequest, pool: Pool) -> SwapCost | None:
    """Swapping against recomputing, where there is swap space."""
    from kvsim.sim.pool.layout import BlockLayout

    has_link = scenario.cost.swap_bytes_per_s or request.hardware.host_link_bytes_per_s
    if not request.swap_bytes or not has_link or not isinstance(pool.layout, BlockLayout):
        return None
    from dataclasses import replace

    from kvsim.sim.cost.sources import build_cost
    from kvsim.sim.cost.swap_or_recompute import swap_cost
    from kvsim.sim.scenario.host_link import host_link

    source = "auto" if scenario.cost.source == "linear" else scenario.cost.source
    cost = build_cost(
        source,
        request.model,
        request.hardware,
        tp=request.tp,
        weight_dtype=request.weight_dtype,
        kv_dtype=request.kv_dtype,
    )
    link = host_link(scenario, request.hardware, pool)
    given = scenario.cost.swap_alpha_ps is not None and scenario.cost.swap_bytes_per_s is not None
    found = swap_cost(request, pool.layout, link, cost)
    return found if given else replace(found, link=f"{link}, assumed")


def _match(request: PoolRequest, pool: Pool, log: StartupLog | None) -> Sequence[LogFigure]:
    if log is None:
        return ()
    from kvsim.sim.pool.log_match import match_log

    return match_log(request, pool, log)


def _hint(log: StartupLog | None) -> list[str]:
    """Sentence on the KV memory of a log that our plan denies."""
    kv_gib = None if log is None else log.get("kv_gib")
    if kv_gib is None or kv_gib <= 0:
        return []
    return [f"the log has {kv_gib:.2f} GiB for KV; --kv-memory {kv_gib:.2f}GiB plans with that"]


def _show_levers(arguments: argparse.Namespace, request: PoolRequest) -> int:
    from kvsim.sim.documents.levers import Levers
    from kvsim.sim.pool.attention_levers import lever_rows
    from kvsim.sim.pool.plan import plan

    plan(request)  # where the model itself does not fit, say so
    rows = lever_rows(request)
    if arguments.json:
        _print_json(Levers(levers=[*rows]))
    else:
        from kvsim.cli.text.plan_table import lever_lines

        print_lines(lever_lines(request, rows))
    return 0


def _show_too_small(
    arguments: argparse.Namespace,
    scenario: Scenario,
    request: PoolRequest,
    error: PoolTooSmallError,
    notes: list[str],
) -> int:
    """Print the split that leaves nothing and the changes that help; exit code 2."""
    from kvsim.sim.pool.document import too_small_document

    document = too_small_document(request, error, notes)
    _write_html(arguments, document, None)
    if arguments.json:
        _print_json(document)
    else:
        from kvsim.cli.text.plan_table import too_small_lines

        lines = _named(arguments, scenario) + too_small_lines(document)
        print_lines(lines + _page_lines(arguments))
    print(f"kvsim: {harmless(str(error))}", file=sys.stderr)
    return 2


def _write_html(arguments: argparse.Namespace, document: Plan, pool: Pool | None) -> None:
    if arguments.html is None:
        return
    from kvsim.sim.report.plan_page import plan_page
    from kvsim.traces.common.files import write_file

    write_file(plan_page(document, pool), Path(arguments.html))


def _page_lines(arguments: argparse.Namespace) -> list[str]:
    from kvsim.cli.text.table import wrapped

    if arguments.html is None:
        return []
    return ["", *wrapped("page", f"{arguments.html}: open it in a browser", first_width=22)]


def _named(arguments: argparse.Namespace, scenario: Scenario) -> list[str]:
    from kvsim.cli.commands.simulate import named_lines

    return [*named_lines(arguments, scenario), ""]


def _print_json(document: Document) -> None:
    from kvsim.sim.run.folder import to_json

    print(to_json(document.to_dict()), end="")
