"""The wall: no decision knows the length of an answer before the answer has ended.

A trace is run twice. In the second run every request that was unfinished at time t has another true
length (and other ids of its answer). Until the first of those requests ends, in either run, nothing
about the lengths has been revealed: up to there both logs of decisions must be equal, byte by byte,
for every policy of every registry that does not declare ``uses_oracle`` - and must differ for those
that do, or the test would see nothing.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import pkgutil
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import kvsim.policies as policies_package
from kvsim.policies.queue_order import FCFS, QUEUE_ORDERS
from kvsim.policies.registry import Registry
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.engine.listener import ScheduleListener
from kvsim.traces.trace.trace import PrefixIds, Trace
from tests.engine_config import engine_config
from tests.engine_run import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.context import PolicyContext
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.policies.sequence import Sequence
    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.engine.steps_in_flight import Results, StepInFlight

NUM_REQUESTS: Final = 48
BLOCK: Final = 4
MODEL_LEN: Final = 320
LONGEST: Final = 200  # what clients allow; answers end before, by a token that nobody foresees
COST: Final = LinearCost(1_000_000, 3_000, 2_000, 10)
MOMENTS: Final = (0.0, 0.25, 0.5, 0.75)
"""Times t, as shares of the first run's calls."""

BASE: Final[dict[str, object]] = {
    "block_size": BLOCK,
    "num_gpu_blocks": 141,
    "max_num_batched_tokens": 24,
    "max_num_seqs": 16,
    "max_model_len": MODEL_LEN,
    "predictor__kind": "quantile",
}
CONTIGUOUS: Final[dict[str, object]] = {
    "allocator__kind": "contiguous",
    "block_size": 1,
    "num_gpu_blocks": 1024,
    "enable_prefix_caching": False,
}
WHOLE_PROMPTS: Final[dict[str, dict[str, object]]] = {
    "token-budget": {"enable_chunked_prefill": False, "max_num_batched_tokens": 120}
}
READS_PROMPTS_TO_COME: Final = {"furthest-next-use"}
"""Knows the future, but not how long answers are: other lengths need not change what it does."""
Rules = dict[str, object]
Difference = tuple[str, str] | None

CHOOSE: Final[dict[str, Callable[[str], Rules]]] = {
    "allocator": lambda name: CONTIGUOUS if name == "contiguous" else {"allocator__kind": name},
    "batching": lambda name: {"batching__policy": name} | WHOLE_PROMPTS.get(name, {}),
    "eviction": lambda name: {"eviction__policy": name},
    "predictor": lambda name: {
        "predictor__kind": name,
        "queue__policy": "fcfs" if name == "none" else "sjf",
    },
    "queue": lambda name: {"queue__policy": name},
    "retention": lambda name: {"retention__kind": name, "retention__budget": 12},
    "reservation": lambda name: CONTIGUOUS | {"allocator__reservation": name},
    "victim": lambda name: {"preemption__victim": name},
}
"""How a run is told to use a policy of each kind."""


def all_registries() -> list[Registry[Any]]:
    """Every registry of the package, found by looking into all its modules."""
    found: dict[int, Registry[Any]] = {}
    for module in pkgutil.walk_packages(policies_package.__path__, "kvsim.policies."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Registry):
                found[id(value)] = value
    return sorted(found.values(), key=lambda registry: registry.kind)


POLICIES: Final = [(registry, name) for registry in all_registries() for name in registry.builtins]


def knows_the_truth(registry: Registry[Any], name: str) -> bool:
    return bool(getattr(registry.find(name), "uses_oracle", False))


class _Enough(Exception):  # noqa: N818 - ends the run, it is no error
    """What comes now is behind the time up to which decisions are compared."""


@dataclass
class Decisions(ScheduleListener):
    """Listener: what each call decided, and how long each answer was by then.

    A run ends at ``upto_ps``: what is decided later is not compared.
    """

    upto_ps: float = math.inf
    calls: list[tuple[int, str]] = field(default_factory=list)
    sampled: list[dict[int, int]] = field(default_factory=list)
    ends_ps: dict[int, int] = field(default_factory=dict)

    def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
        if step_in_flight.call_ps >= self.upto_ps:
            raise _Enough
        step, state = step_in_flight.step, stepper.state
        told = {
            "times": [step_in_flight.call_ps, step_in_flight.start_ps, step_in_flight.end_ps],
            "items": [[item.sequence.index, item.num_tokens, item.past] for item in step.items],
            "admitted": [[a.sequence.index, a.hit_tokens, a.resumed] for a in step.admitted],
            "preempted": [[p.sequence.index, p.num_computed_tokens] for p in step.preempted],
            "waits_for": step.waits_for,
            "evicted": state.allocator.num_evicted,
        }
        self.calls.append((step_in_flight.call_ps, json.dumps(told)))
        sequences = [*state.running, *state.waiting]
        self.sampled.append({s.index: s.num_tokens - s.prompt_tokens for s in sequences})

    def applied(self, stepper: Stepper, results: Results) -> None:
        self.ends_ps.update(dict.fromkeys(results.finished, results.step_in_flight.end_ps))


def make_trace(outputs: list[int]) -> Trace:
    """Chat-like: bursts, users, priorities; prompts go on where earlier answers may end."""
    rnd = Random(7)
    fresh = iter(range(10**6))
    arrivals: list[int] = []
    prompts: list[int] = []
    ids: list[list[int]] = []
    now_ns = 0
    for index in range(NUM_REQUESTS):
        now_ns += rnd.choice([0, 0, 2_000, 15_000])
        base: list[int] = []
        if index and rnd.random() < 0.6:
            base = ids[rnd.randrange(index)][: rnd.randint(1, 18)]
        length = min(len(base) + rnd.randint(1, 12), 28)
        arrivals.append(now_ns)
        prompts.append(length * BLOCK - rnd.randrange(BLOCK))
        ids.append(base[:length] + [next(fresh) for _ in range(length - len(base))])
        ids[-1] += [next(fresh) for _ in range(LONGEST // BLOCK + 1)]
    for index, output in enumerate(outputs):
        ids[index] = ids[index][: -(-(prompts[index] + output) // BLOCK)]
    columns = [np.array(values, dtype=np.int64) for values in (arrivals, prompts, outputs)]
    flat = np.array([value for one in ids for value in one], dtype=np.int64)
    return Trace(
        "wall",
        columns[0],
        columns[1],
        columns[2],
        priority=np.array([index % 3 for index in range(NUM_REQUESTS)]),
        user=[f"user {index % 5}" if index % 3 else "" for index in range(NUM_REQUESTS)],
        session=[f"user {index % 7}" for index in range(NUM_REQUESTS)],
        prefix=PrefixIds(BLOCK, np.cumsum([0, *map(len, ids)]), flat, covers_output=True),
    )


def config_of(rules: Rules) -> SchedulerConfig:
    return engine_config(**(BASE | rules))


def decide(
    outputs: list[int], config: SchedulerConfig, *, audit: bool = False, upto_ps: float = math.inf
) -> Decisions:
    """One run: its decisions and when each request ended."""
    decisions = Decisions(upto_ps)
    max_tokens = np.full(NUM_REQUESTS, LONGEST)
    trace = make_trace(outputs)
    with contextlib.suppress(_Enough):
        run(trace, config, COST, max_tokens=max_tokens, audit=audit, listener=decisions)
        assert len(decisions.ends_ps) == NUM_REQUESTS, "all requests finish"
    return decisions


def first_outputs() -> list[int]:
    rnd = Random(3)
    return [rnd.randint(20, 120) for _ in range(NUM_REQUESTS)]


@cache  # defaults of several registries are one engine
def differences(config: SchedulerConfig) -> list[Difference]:
    """First difference of both runs up to where a changed length is revealed, for each t."""
    outputs = first_outputs()
    first = decide(outputs, config, audit=True)
    return [_difference_at(moment, outputs, config, first) for moment in MOMENTS]


def _difference_at(
    moment: float, outputs: list[int], config: SchedulerConfig, ours: Decisions
) -> Difference:
    position = int(moment * len(ours.calls))
    t_ps, sampled = ours.calls[position][0], ours.sampled[position]
    rnd = Random(11)
    changed = [index for index in range(NUM_REQUESTS) if ours.ends_ps[index] > t_ps]
    other = list(outputs)
    for index in changed:
        least = sampled.get(index, 0) + 20
        choices = set(range(least, max(least + 2, LONGEST))) - {outputs[index]}
        other[index] = rnd.choice(sorted(choices))
    first_end_ps = min(ours.ends_ps[index] for index in changed)
    theirs = decide(other, config, upto_ps=first_end_ps)
    ended_there = theirs.ends_ps.keys() & changed
    revealed_ps = min([first_end_ps, *(theirs.ends_ps[index] for index in ended_there)])
    first, second = (
        [record for call_ps, record in decisions.calls if call_ps < revealed_ps]
        for decisions in (ours, theirs)
    )
    both = zip_longest(first, second, fillvalue="")
    return next((pair for pair in both if pair[0] != pair[1]), None)


@pytest.mark.parametrize(
    "in_flight", [pytest.param(1, marks=pytest.mark.slow), 2], ids=["sync", "async"]
)
@pytest.mark.parametrize(
    ("registry", "name"), POLICIES, ids=[f"{kind.kind}-{name}" for kind, name in POLICIES]
)
def test_no_decision_knows_the_future(registry: Registry[Any], name: str, in_flight: int) -> None:
    rules = CHOOSE[registry.kind](name) | {"async_scheduling": in_flight == 2}
    found = differences(config_of(rules))
    if name in READS_PROMPTS_TO_COME:
        return
    if knows_the_truth(registry, name):
        assert any(found), "the test sees no oracle"
    else:
        assert found == [None] * len(MOMENTS)


@pytest.mark.parametrize("predictor", ["max_tokens", "quantile", "oracle"])
def test_room_kept_for_answers_knows_what_its_predictor_knows(predictor: str) -> None:
    found = differences(
        config_of({"batching__reserve_predicted_output": True, "predictor__kind": predictor})
    )
    assert any(found) == (predictor == "oracle")


def test_every_registry_is_covered() -> None:
    assert [registry.kind for registry in all_registries()] == sorted(CHOOSE)
    knowing = {name for registry, name in POLICIES if knows_the_truth(registry, name)}
    assert knowing == {"oracle", "pow2", "noisy", "bucketed", *READS_PROMPTS_TO_COME}


def test_much_is_decided_behind_the_wall() -> None:
    """Guard of the guard: after the latest t calls still admit, preempt, hit and evict."""
    decisions = decide(first_outputs(), config_of({}))
    calls = [(call_ps, json.loads(record)) for call_ps, record in decisions.calls]
    seen = {"admitted": 0, "hits": 0, "preempted": 0, "evicted": 0}
    for moment in MOMENTS:
        t_ps = calls[int(moment * len(calls))][0]
        revealed_ps = min(end_ps for end_ps in decisions.ends_ps.values() if end_ps > t_ps)
        window = [record for call_ps, record in calls if t_ps <= call_ps < revealed_ps]
        seen["admitted"] += sum(len(record["admitted"]) for record in window)
        seen["hits"] += sum(hit > 0 for record in window for _, hit, _ in record["admitted"])
        seen["preempted"] += sum(len(record["preempted"]) for record in window)
        seen["evicted"] += window[-1]["evicted"] - window[0]["evicted"] if window else 0
    assert min(seen.values()) >= 3, seen


class Peeking(FCFS):
    """Breaks the rules: as many ids as the answer will have tokens for are in its hands."""

    name = "peeking"

    def __init__(self, context: PolicyContext) -> None:
        super().__init__()

    def push(self, sequence: Sequence) -> None:
        super().push(sequence)
        ordered = sorted(self._queue, key=lambda waiting: max(waiting._ends, default=0))
        self._queue.clear()
        self._queue.extend(ordered)


class Asking(Peeking):
    """Asks for the key of a block of its answer, as policies may."""

    name = "asking"

    def push(self, sequence: Sequence) -> None:
        sequence.block_key(sequence.prompt_tokens // BLOCK, BLOCK)
        super().push(sequence)


def test_ids_of_answers_would_leak_their_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(QUEUE_ORDERS.builtins, "peeking", Peeking)
    assert any(differences(config_of({"queue__policy": "peeking"})))
    monkeypatch.setitem(QUEUE_ORDERS.builtins, "asking", Asking)
    with pytest.raises(AssertionError, match="keys are hidden beyond the known tokens"):
        differences(config_of({"queue__policy": "asking"}))
