"""The check for looks behind the wall finds one where there is one, and none where there is not."""

from __future__ import annotations

import sys
from random import Random
from types import ModuleType
from typing import TYPE_CHECKING, Any

from kvsim.policies.queue_order import QUEUE_ORDERS
from kvsim.policies.queue_order.fcfs import FCFS
from kvsim.sim.conformance.length_leak import Call, Result, find_length_leak, first_leak
from kvsim.sim.conformance.random_scenario import random_scenario
from tests.engine_config import engine_config

if TYPE_CHECKING:
    import pytest

    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence

NUM_RUNS = 12


class ShortestAnswerFirst(FCFS):
    """Knows all lengths, and says so."""

    uses_oracle = True

    def __init__(self, context: PolicyContext) -> None:
        super().__init__()
        assert context.truth is not None
        self._truth = context.truth

    def push(self, sequence: Sequence) -> None:
        super().push(sequence)
        shortest = sorted(self._queue, key=lambda one: self._truth.num_outputs(one.index))
        self._queue = type(self._queue)(shortest)


def num_leaks(**options: Any) -> int:
    leaks = 0
    for seed in range(NUM_RUNS):
        scenario = random_scenario(Random(seed))
        scenario = scenario._replace(config=engine_config(scenario.config, **options))
        leaks += find_length_leak(scenario, Random(seed)) is not None
    return leaks


def test_no_built_in_order_of_the_queue_looks_behind_the_wall() -> None:
    for name in ("fcfs", "priority"):
        assert name in QUEUE_ORDERS.builtins
        assert num_leaks(queue__policy=name) == 0


def test_an_oracle_does(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("seers")
    vars(module).update(globals())
    monkeypatch.setitem(sys.modules, "seers", module)
    assert num_leaks(queue__policy="seers:ShortestAnswerFirst") > NUM_RUNS / 10


def test_reservations_that_know_the_answer_are_found_out() -> None:
    contiguous: dict[str, Any] = {
        "allocator__kind": "contiguous",
        "block_size": 1,
        "num_gpu_blocks": 300,
        "enable_prefix_caching": False,
        "batching__policy": "iteration-level",
    }
    assert num_leaks(**contiguous, allocator__reservation="max") == 0
    assert num_leaks(**contiguous, allocator__reservation="oracle") > 0


def call(end_ps: int) -> Call:
    return Call(0, 0, end_ps, ((0, 1, 5),), (), (), None, 0)


def result(end_ps: int, *finished: int) -> Result:
    return Result(end_ps, (0,), finished, (), ())


def test_a_difference_counts_until_results_reveal_one() -> None:
    assert first_leak([call(5), result(5)], [call(5), result(5)]) is None
    assert first_leak([call(5), result(5)], [call(6), result(6)]) == call(6)
    assert first_leak([result(5, 0), call(7)], [result(5), call(6)]) is None
    assert first_leak([result(5)], [result(6)]) == result(6)
    assert first_leak([result(5)], [call(5)]) == call(5)
