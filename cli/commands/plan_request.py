"""What ``kvsim plan`` is asked: scenario, request for a pool, log and trace of its options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kvsim.cli.commands.simulate import scenario_of
from kvsim.cli.options.pool_options import plain_number, pool_values

if TYPE_CHECKING:
    import argparse

    from kvsim.sim.pool.memory_terms import PoolRequest
    from kvsim.sim.pool.startup_log import StartupLog
    from kvsim.sim.scenario.scenario import Scenario


def plan_scenario(arguments: argparse.Namespace, log: StartupLog | None) -> Scenario:
    """Scenario of the options; what a log says fills those that were not given."""
    if arguments.config is not None:
        if arguments.model is not None:
            raise ValueError("--config and --model both name the model: give one")
        if not Path(arguments.config).exists():
            raise ValueError(f"--config {arguments.config}: there is no such file")
        arguments.model = arguments.config
    if log is not None and arguments.model is None and "model.name" in log.options:
        arguments.model = _bundled(str(log.options["model.name"]), arguments.match_log)
    scenario = scenario_of(arguments)
    if log is not None:
        taken = pool_values(arguments)
        values = {
            path: value
            for path, value in log.options.items()
            if path not in taken and path != "model.name"
        }
        try:
            scenario = scenario.with_values(values)
        except ValueError as error:
            raise ValueError(f"{arguments.match_log}: {error}") from None
    if arguments.pp is None:
        return scenario
    return scenario.with_values({"engine.pipeline_parallel_size": plain_number(arguments.pp)})


def check_html(arguments: argparse.Namespace) -> None:
    """Refuse, before any work, a place of ``--html`` that cannot hold a page."""
    if arguments.html is None:
        return
    if arguments.levers:
        raise ValueError("--levers prints a table of its own: leave --html out")
    from kvsim.traces.common.files import check_file

    check_file(Path(arguments.html))


def _bundled(name: str, log: str) -> str:
    """Bundled model or file that the name in a log means."""
    from kvsim.sim.models import find_bundled

    found = find_bundled(name)
    if found is None and not Path(name).exists():
        raise ValueError(
            f"{log}: its model {name!r} is not bundled; give --model, or --config with its"
            " config.json"
        )
    return found or name


def plan_request(
    arguments: argparse.Namespace, scenario: Scenario, log: StartupLog | None
) -> tuple[PoolRequest, tuple[str, ...]]:
    """Request for a pool: the scenario's, and what only a plan has; notes on changes for a log."""
    from kvsim.sim.pool.log_match import as_in_log
    from kvsim.sim.scenario.setup import pool_request
    from kvsim.traces.common.quantities import parse_size_bytes

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
    return as_in_log(
        request,
        log,
        seats_given=scenario.engine.max_num_seqs is not None,
        tokens_given=scenario.engine.max_num_batched_tokens is not None,
    )


def read_log(arguments: argparse.Namespace) -> StartupLog | None:
    """Log of ``--match-log``, ``None`` without it."""
    if arguments.match_log is None:
        return None
    if arguments.engine != "vllm":
        raise ValueError("--match-log reads vLLM's log: it goes with --engine vllm")
    from kvsim.sim.pool.startup_log import read_startup_log

    return read_startup_log(arguments.match_log)


def trace_lengths(path: str | None) -> dict[str, int]:
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
