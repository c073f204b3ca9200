"""``kvsim plan``: what fits on a card, before anything is started."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsim.cli.completion import FILES
from kvsim.cli.pool_options import add_pool_options, plain_number, pool_values
from kvsim.cli.simulate import add_scenario_options, scenario_of

if TYPE_CHECKING:
    import argparse

    from kvsim.sim.memory_terms import PoolRequest
    from kvsim.sim.pool import Pool, PoolTooSmallError
    from kvsim.sim.scenario import Scenario
    from kvsim.sim.startup_log import StartupLog


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
    group.add_argument("--swap-space", metavar="SIZE", help="host memory for swap a rank, in GiB")
    trace = group.add_argument("--trace", metavar="T", help="fit its mean and p95 length too")
    log = group.add_argument(
        "--match-log", metavar="FILE", help="vLLM start-up log to show beside ours"
    )
    group.add_argument("--levers", action="store_true", help="what each lever on KV memory buys")
    group.add_argument("--json", action="store_true", help="print JSON")
    for option in (config, trace, log):
        option.complete = FILES  # type: ignore[attr-defined]  # read by shtab
    parser.set_defaults(handler=run, slo=None)


def run(arguments: argparse.Namespace) -> int:
    """Plan and print; 2 where not even one block fits."""
    from kvsim.sim.pool import PoolTooSmallError, plan
    from kvsim.sim.pool_document import plan_document

    log = _read_log(arguments)
    scenario = _scenario(arguments, log)
    request, notes = _request(arguments, scenario, log)
    try:
        if arguments.levers:
            return _show_levers(arguments, request)
        lengths = _trace_lengths(arguments.trace)
        pool = plan(request)
    except PoolTooSmallError as error:
        return _show_too_small(arguments, scenario, request, error)
    document = plan_document(request, pool, lengths)
    document["swap"] = _swap(scenario, request, pool)
    document["log"] = _match(request, pool, log)
    document["notes"] += notes
    if arguments.json:
        _print_json(document)
    else:
        from kvsim.cli.plan_table import plan_lines

        print("\n".join(_named(arguments, scenario) + plan_lines(document)))
    return 0


def _scenario(arguments: argparse.Namespace, log: StartupLog | None) -> Scenario:
    """Scenario of the options; what a log says fills those that were not given."""
    if arguments.config is not None:
        if arguments.model is not None:
            raise ValueError("--config and --model both name the model: give one")
        if not Path(arguments.config).exists():
            raise ValueError(f"--config {arguments.config}: there is no such file")
        arguments.model = arguments.config
    if log is not None and arguments.model is None and "model.name" in log.options:
        arguments.model = _bundled(str(log.options["model.name"]))
    scenario = scenario_of(arguments)
    values: dict[str, object] = {}
    if log is not None:
        taken = pool_values(arguments)
        values = {
            path: value
            for path, value in log.options.items()
            if path not in taken and path != "model.name"
        }
    if arguments.pp is not None:
        values["engine.pipeline_parallel_size"] = plain_number(arguments.pp)
    return scenario.with_values(values)


def _bundled(name: str) -> str:
    """Bundled model that a Hugging Face name means, else the name itself."""
    from kvsim.sim.models import bundled_models

    short = name.rsplit("/", 1)[-1].lower()
    for part in ("meta-", "-instruct", "-chat", "-hf", "-it", "-base"):
        short = short.replace(part, "")
    known = bundled_models()
    return short if short in known else name


def _request(
    arguments: argparse.Namespace, scenario: Scenario, log: StartupLog | None
) -> tuple[PoolRequest, tuple[str, ...]]:
    """Request for a pool: the scenario's, and what only a plan has; notes on changes for a log."""
    from kvsim.sim.engine_setup import pool_request
    from kvsim.sim.log_match import as_in_log
    from kvsim.sim.quantities import parse_size_bytes

    request = replace(pool_request(scenario), engine=arguments.engine)
    if arguments.swap_space is not None:
        try:
            request = replace(request, swap_bytes=parse_size_bytes(arguments.swap_space))
        except ValueError as error:
            raise ValueError(f"--swap-space {arguments.swap_space!r}: {error}") from None
    if arguments.slots is not None:
        if arguments.engine != "llama.cpp":
            raise ValueError("--slots belongs to --engine llama.cpp")
        if not arguments.slots.isdecimal():
            raise ValueError(f"--slots {arguments.slots!r} is not a whole number >= 1")
        request = replace(request, slots=int(arguments.slots))
    if arguments.engine == "sglang":
        if scenario.engine.block_size is None:
            request = replace(request, block_size=1)
        if arguments.utilization is not None:
            request = replace(request, mem_fraction_static=request.gpu_memory_utilization)
    if log is None:
        return request, ()
    return as_in_log(request, log, seats_given=scenario.engine.max_num_seqs is not None)


def _read_log(arguments: argparse.Namespace) -> StartupLog | None:
    if arguments.match_log is None:
        return None
    if arguments.engine != "vllm":
        raise ValueError("--match-log reads vLLM's log: it goes with --engine vllm")
    from kvsim.sim.startup_log import read_startup_log

    return read_startup_log(arguments.match_log)


def _trace_lengths(path: str | None) -> dict[str, int]:
    """Mean and 95th percentile of prompt + output, in tokens, rounded up."""
    if path is None:
        return {}
    import math

    import numpy as np

    from kvsim.traces import read_trace

    trace = read_trace(Path(path))
    tokens = trace.prompt_tokens + trace.output_tokens
    if not len(tokens):
        raise ValueError(f"{path}: no request was read, so it has no mean length")
    return {
        "trace_mean": math.ceil(tokens.mean()),
        "trace_p95": math.ceil(np.percentile(tokens, 95)),
    }


def _swap(scenario: Scenario, request: PoolRequest, pool: Pool) -> dict[str, Any] | None:
    """Swapping against recomputing, where there is swap space."""
    if not request.swap_bytes:
        return None
    from dataclasses import asdict

    from kvsim.sim.cost_sources import build_cost
    from kvsim.sim.swap import swap_cost

    source = "auto" if scenario.cost.source == "linear" else scenario.cost.source
    cost = build_cost(
        source,
        request.model,
        request.hardware,
        tp=request.tp,
        weight_dtype=request.weight_dtype,
        kv_dtype=request.kv_dtype,
    )
    found = swap_cost(request, pool.shares[pool.binding].model, cost)
    return None if found is None else asdict(found)


def _match(request: PoolRequest, pool: Pool, log: StartupLog | None) -> list[dict[str, Any]]:
    if log is None:
        return []
    from dataclasses import asdict

    from kvsim.sim.log_match import match_log

    return [asdict(row) for row in match_log(request, pool, log)]


def _show_levers(arguments: argparse.Namespace, request: PoolRequest) -> int:
    from dataclasses import asdict

    from kvsim.sim.attention_levers import lever_rows
    from kvsim.sim.pool import plan

    plan(request)  # where the model itself does not fit, say so
    rows = lever_rows(request)
    if arguments.json:
        _print_json({"levers": [asdict(row) for row in rows]})
    else:
        from kvsim.cli.levers_table import lever_lines

        print("\n".join(lever_lines(request, rows)))
    return 0


def _show_too_small(
    arguments: argparse.Namespace,
    scenario: Scenario,
    request: PoolRequest,
    error: PoolTooSmallError,
) -> int:
    """Print the split that leaves nothing and the changes that help; exit code 2."""
    from kvsim.sim.pool_document import levers_document, terms_document

    document: dict[str, Any] = {
        "model": request.model.name,
        "hardware": request.hardware.name,
        "engine": request.engine,
        "fits": False,
        "num_blocks": 0,
        "pool_tokens": 0,
        "kv_pool_bytes": error.kv_bytes,
        "max_concurrency": 0.0,
        "max_model_len_that_fits": 0,
        "terms": terms_document(error.terms, error.kv_bytes),
        "levers": levers_document(request),
        "error": str(error),
    }
    if arguments.json:
        _print_json(document)
    else:
        from kvsim.cli.plan_table import lever_hint_lines, term_lines

        lines = [*_named(arguments, scenario), *term_lines(document), ""]
        print("\n".join(lines + lever_hint_lines(document["levers"])))
    print(f"kvsim: {error}", file=sys.stderr)
    return 2


def _named(arguments: argparse.Namespace, scenario: Scenario) -> list[str]:
    from kvsim.cli.simulate import named_lines

    return [*named_lines(arguments, scenario), ""]


def _print_json(document: dict[str, Any]) -> None:
    from kvsim.sim.run_folder import to_json

    print(to_json(document), end="")
