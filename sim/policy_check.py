"""Whether a policy of one's own keeps the rules of its kind, on small random runs.

Every run is audited, and the policy is asked at every step. Found are: rules broken at a call
(:mod:`kvsim.policies.guards`), requests that never end, decisions that differ between two runs of
the same inputs, and decisions that rest on lengths nobody can know (:mod:`kvsim.sim.wall`).
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kvsim.policies.allocators import ALLOCATORS
from kvsim.policies.batching import BATCHING
from kvsim.policies.guards import BrokenRuleError
from kvsim.policies.predictor import PREDICTORS
from kvsim.policies.queue_order import QUEUE_ORDERS
from kvsim.policies.registry import load_policy
from kvsim.sim.driver import run
from kvsim.sim.random_scenario import random_scenario
from kvsim.sim.wall import decide, look_behind_the_wall

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.registry import Registry
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.random_scenario import RandomScenario


class PolicyKind(NamedTuple):
    """One kind that can be checked: its registry, the option that names it, how it is told."""

    registry: Registry[object]
    option: str
    method: str


KINDS: Final[dict[str, PolicyKind]] = {
    "allocator": PolicyKind(ALLOCATORS, "allocator", "find_hit"),
    "batching": PolicyKind(BATCHING, "batching", "compose"),
    "queue": PolicyKind(QUEUE_ORDERS, "policy", "push_preempted"),
    "predictor": PolicyKind(PREDICTORS, "predictor", "output_tokens"),
}


class Finding(NamedTuple):
    """One line of the check: what was tried, and what went wrong (``""`` where nothing did)."""

    name: str
    tried: str
    fault: str = ""


def find_kind(name: str) -> str:
    """Kind of the policy of a name, told by the method that only that kind has.

    Raises
    ------
    ValueError
        Where the name is unknown, or no kind, or more than one, fits.
    """
    if ":" in name:
        policy = load_policy(name)
        fitting = [kind for kind, rules in KINDS.items() if hasattr(policy, rules.method)]
    else:
        fitting = [kind for kind, rules in KINDS.items() if name in rules.registry.names()]
    if len(fitting) == 1:
        return fitting[0]
    told = ", ".join(f"{kind} ({rules.method})" for kind, rules in KINDS.items())
    which = f"is of several kinds ({', '.join(fitting)})" if fitting else "is of no known kind"
    raise ValueError(f"policy {name!r} {which}: {told}; give --kind")


def check_policy(kind: str, name: str, *, num_runs: int = 40) -> list[Finding]:
    """Try a policy on ``num_runs`` random runs; all findings, faulty or not."""
    rules = KINDS[kind]
    factory = rules.registry.find(name)
    scenarios = [(seed, _scenario(rules.option, name, seed)) for seed in range(num_runs)]
    findings = [
        _each(scenarios, "rules", "all requests end, memory adds up at every call", _ends),
        _each(scenarios, "repeats", "the same inputs lead to the same decisions", _repeats),
    ]
    if getattr(factory, "uses_oracle", False):
        findings.append(Finding("wall", "uses oracle knowledge, as it declares: not checked"))
    else:
        findings.append(
            _each(scenarios, "wall", "no decision rests on lengths nobody can know", _wall)
        )
    return findings


def _scenario(option: str, name: str, seed: int) -> RandomScenario:
    scenario = random_scenario(Random(seed))
    return scenario._replace(config=_with(scenario.config, option, name))


def _with(config: SchedulerConfig, option: str, name: str) -> SchedulerConfig:
    changes: dict[str, Any] = {option: name}
    return replace(config, **changes)


def _each(
    scenarios: list[tuple[int, RandomScenario]],
    name: str,
    tried: str,
    check: Callable[[RandomScenario, int], str],
) -> Finding:
    """Check run after run up to the first fault."""
    for seed, scenario in scenarios:
        try:
            fault = check(scenario, seed)
        except (BrokenRuleError, AssertionError) as error:
            fault = str(error) or "an invariant of the engine is broken"
        if fault:
            return Finding(name, tried, f"random run {seed}: {fault}")
    return Finding(name, f"{tried} ({len(scenarios)} random runs)")


def _ends(scenario: RandomScenario, _seed: int) -> str:
    trace, config, cost, max_tokens = scenario
    recorder = run(trace, config, cost, max_tokens=max_tokens, step=True, audit=True).recorder
    if recorder.num_ended < len(trace):
        return f"{len(trace) - recorder.num_ended} of {len(trace)} requests never end"
    return ""


def _repeats(scenario: RandomScenario, _seed: int) -> str:
    for first, second in zip(decide(scenario), decide(scenario), strict=True):
        if first != second:
            return f"{first} the first time, {second} the second"
    return ""


def _wall(scenario: RandomScenario, seed: int) -> str:
    leak = look_behind_the_wall(scenario, Random(-1 - seed))
    return "" if leak is None else f"other lengths, unknown by then, lead to {leak}"
