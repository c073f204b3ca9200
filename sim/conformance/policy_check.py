"""Check that a plug-in policy keeps the rules of its kind, on small random runs.

Every run is audited, and the policy is called at every step. The check finds rules broken at a call
(:mod:`kvsim.policies.guards`), requests that never end, different decisions in two runs of the same
inputs, and decisions that depend on hidden output lengths
(:mod:`kvsim.sim.conformance.length_leak`).
"""

from __future__ import annotations

from inspect import signature
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.policies.allocators import ALLOCATORS
from kvsim.policies.batching import BATCHING
from kvsim.policies.eviction import EVICTION
from kvsim.policies.guards import BrokenRuleError
from kvsim.policies.predictor import PREDICTORS
from kvsim.policies.preemption import VICTIMS
from kvsim.policies.queue_order import QUEUE_ORDERS
from kvsim.policies.registry import load_policy
from kvsim.sim.conformance.length_leak import decide, find_length_leak
from kvsim.sim.conformance.random_scenario import random_scenario
from kvsim.sim.run.drive import Engine, run
from kvsim.sim.run.options import RunOptions
from kvsim.traces.common.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.registry import Registry
    from kvsim.sim.conformance.random_scenario import RandomScenario


class PolicyKind(NamedTuple):
    """One kind that can be checked: its registry, and the options of a run that uses the policy.

    A class is recognised by the ``method`` that only its kind has, a function by its ``arguments``.
    """

    registry: Registry[object]
    options: Callable[[str], dict[str, object]]
    method: str
    arguments: tuple[str, ...] = ()

    def fits(self, policy: object) -> bool:
        """Whether a class or function seems to be of this kind."""
        if isinstance(policy, type):
            return bool(self.method) and hasattr(policy, self.method)
        return bool(self.arguments) and len(signature(policy).parameters) == len(self.arguments)  # type: ignore[arg-type]

    def recognised_by(self) -> str:
        """Return the method or function by which the kind is recognised."""
        function = f" or f({', '.join(self.arguments)})" if self.arguments else ""
        return f"{self.method}{function}" if self.method else function.removeprefix(" or ")


KINDS: Final[dict[str, PolicyKind]] = {
    "allocator": PolicyKind(ALLOCATORS, lambda name: {"allocator.kind": name}, "find_hit"),
    "batching": PolicyKind(BATCHING, lambda name: {"batching.policy": name}, "compose"),
    "queue": PolicyKind(QUEUE_ORDERS, lambda name: {"queue.policy": name}, "push_preempted"),
    "predictor": PolicyKind(
        PREDICTORS, lambda name: {"predictor.kind": name, "queue.policy": "sjf"}, "output_tokens"
    ),
    "eviction": PolicyKind(
        EVICTION,
        lambda name: {"eviction.policy": name, "enable_prefix_caching": True},
        "victim",
        ("entry",),
    ),
    "victim": PolicyKind(
        VICTIMS, lambda name: {"preemption.victim": name}, "", ("running", "state")
    ),
}


class Finding(NamedTuple):
    """One line of the check: what was tried, and what went wrong (``""`` if nothing did)."""

    name: str
    tried: str
    fault: str = ""


def find_kind(name: str) -> str:
    """Return the kind of the policy of a name, by the method that only that kind has.

    Raises
    ------
    ValueError
        If the name is unknown, or if not exactly one kind fits.
    """
    if ":" in name:
        policy = load_policy(name)
        fitting = [kind for kind, rules in KINDS.items() if rules.fits(policy)]
    else:
        fitting = [kind for kind, rules in KINDS.items() if name in rules.registry.names()]
    if len(fitting) == 1:
        return fitting[0]
    marks = ", ".join(f"{kind} ({rules.recognised_by()})" for kind, rules in KINDS.items())
    which = f"is of several kinds ({', '.join(fitting)})" if fitting else "is of no known kind"
    raise ValueError(f"policy {name!r} {which}: {marks}; give --kind")


def check_policy(kind: str, name: str, *, num_runs: int = 40) -> list[Finding]:
    """Try a policy on ``num_runs`` random runs; return all findings, with or without a fault."""
    rules = KINDS[kind]
    factory = rules.registry.find(name)
    scenarios = [(seed, _scenario(rules.options(name), seed)) for seed in range(num_runs)]
    findings = [
        _each(scenarios, "rules", "all requests end, memory adds up at every call", _ends),
        _each(scenarios, "repeats", "the same inputs lead to the same decisions", _repeats),
    ]
    if getattr(factory, "uses_oracle", False):
        findings.append(
            Finding("length leak", "uses oracle knowledge, as it declares: not checked")
        )
    else:
        findings.append(
            _each(
                scenarios,
                "length leak",
                "no decision depends on a hidden output length",
                _length_leak,
            )
        )
    return findings


def _scenario(options: dict[str, object], seed: int) -> RandomScenario:
    scenario = random_scenario(Random(seed))
    return scenario._replace(config=scenario.config.with_values(options))


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
    options = RunOptions(step=True, audit=True)
    recorder = run(trace, Engine(config, cost), max_tokens=max_tokens, options=options).recorder
    if recorder.num_ended < len(trace):
        return f"{len(trace) - recorder.num_ended} of {counted(len(trace), 'request')} never end"
    return ""


def _repeats(scenario: RandomScenario, _seed: int) -> str:
    for first, second in zip(decide(scenario), decide(scenario), strict=True):
        if first != second:
            return f"{first} in the first run, {second} in the second"
    return ""


def _length_leak(scenario: RandomScenario, seed: int) -> str:
    leak = find_length_leak(scenario, Random(-1 - seed))
    return "" if leak is None else f"other lengths, unknown by then, lead to {leak}"
