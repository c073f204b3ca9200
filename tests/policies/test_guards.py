"""Policies of one's own that break a rule are stopped, with their name and the rule."""

from __future__ import annotations

import math
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.policies.allocators import PagedAllocator
from kvsim.policies.allocators.base import Hit, Usage
from kvsim.policies.batching import Item, MixedRunningFirst, ScheduledStep, SchedulerState
from kvsim.policies.eviction import KeyedOrder
from kvsim.policies.queue_order import FCFS
from kvsim.sim.conformance.policy_check import KINDS, check_policy
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.traces.trace.trace import Trace
from tests.engine_config import engine_config
from tests.engine_run import run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvsim.policies.context import PolicyContext
    from kvsim.policies.eviction.base import Entry
    from kvsim.policies.sequence import Sequence


class Forgetful(FCFS):
    """Loses who is preempted, or comes third."""

    def __init__(self, context: PolicyContext) -> None:
        super().__init__()
        self._count = 0

    def push(self, sequence: Sequence) -> None:
        self._count += 1
        if self._count != 3:
            super().push(sequence)


class Inconstant(FCFS):
    def __init__(self, context: PolicyContext) -> None:
        super().__init__()

    def pop(self) -> Sequence:
        return self._queue.pop()


class Bare(FCFS):
    def __init__(self) -> None:
        super().__init__()


class Crashing(MixedRunningFirst):
    def __init__(self, context: PolicyContext) -> None:
        self._num_calls = 0

    def compose(self, state: SchedulerState) -> ScheduledStep:
        self._num_calls += 1
        return super().compose(state) if 10 // (5 - self._num_calls) else ScheduledStep()


class Changed(MixedRunningFirst):
    """Steps of vLLM, changed afterwards."""

    def __init__(self, context: PolicyContext) -> None:
        self.context = context

    def compose(self, state: SchedulerState) -> ScheduledStep:
        step = super().compose(state)
        if step.items:
            self.change(state, step)
        return step

    def change(self, state: SchedulerState, step: ScheduledStep) -> None:
        raise NotImplementedError


class Generous(Changed):
    def change(self, state: SchedulerState, step: ScheduledStep) -> None:
        sequence, num_tokens, past = step.items[0]
        step.items[0] = Item(sequence, num_tokens + 1000, past)


class Skipping(Changed):
    def change(self, state: SchedulerState, step: ScheduledStep) -> None:
        sequence, num_tokens, past = step.items[-1]
        step.items[-1] = Item(sequence, num_tokens, past + 1)


class Doubling(Changed):
    def change(self, state: SchedulerState, step: ScheduledStep) -> None:
        step.items.append(step.items[0])


class Dropping(Changed):
    def change(self, state: SchedulerState, step: ScheduledStep) -> None:
        state.running.pop()


class Standing(Changed):
    """Lets more run than there are seats for, without memory."""

    def change(self, state: SchedulerState, step: ScheduledStep) -> None:
        while len(state.waiting):
            state.running.append(state.waiting.pop())


class Boastful(PagedAllocator):
    def __init__(self, context: PolicyContext) -> None:
        super().__init__(context.config)

    def find_hit(self, sequence: Sequence) -> Hit:
        return Hit(sequence.num_tokens, ((),) * len(self.groups), 0)  # type: ignore[arg-type]


class Leaking(PagedAllocator):
    """Forgets to count what it gave away once."""

    def __init__(self, context: PolicyContext) -> None:
        super().__init__(context.config)
        self._num_lost = 0

    def release(self, sequence: Sequence) -> None:
        super().release(sequence)
        self._num_lost += self._block_size

    def usage(self, running: Iterable[Sequence]) -> Usage:
        usage = super().usage(running)
        return usage._replace(blank=usage.blank - self._num_lost)


class Halving(PagedAllocator):
    def __init__(self, context: PolicyContext) -> None:
        super().__init__(context.config)

    def num_empty(self, sequence: Sequence, tokens: int) -> Any:
        return super().num_empty(sequence, tokens) / 2


class Keeping(PagedAllocator):
    def __init__(self, context: PolicyContext) -> None:
        super().__init__(context.config)

    def release(self, sequence: Sequence) -> None:
        """Keep it all."""


class Mumbling(PagedAllocator):
    def __init__(self, context: PolicyContext) -> None:
        super().__init__(context.config)

    def refusal(self, sequence: Sequence, hit: Hit, new_tokens: int, *, idle: bool) -> str | None:
        return "no" if sequence.index else None


def no_tuple(entry: Entry) -> Any:
    return entry.last_access


def crashing_key(entry: Entry) -> Any:
    return (1 // (entry.num_hits - 1),)


def nobody(running: list[Sequence], state: SchedulerState) -> Any:
    return None


class Grabbing(KeyedOrder[Any]):
    """Its victim is the block that came in last, whoever holds it."""

    def __init__(self, context: PolicyContext) -> None:
        super().__init__(lambda entry: (entry.last_access,))
        self._last: Any = None

    def inserted(self, entry: Any) -> None:
        self._last = entry

    def victim(self) -> Any:
        return self._last


class Guessing:
    predicts = True

    def __init__(self, context: PolicyContext) -> None:
        pass

    def output_tokens(self, sequence: Sequence) -> Any:
        return 3

    def finished(self, sequence: Sequence) -> None:
        pass


class Mutating(Changed):
    """Rewrites what the engine knows of a sequence."""

    def change(self, state: SchedulerState, step: ScheduledStep) -> None:
        state.running[0].prompt_tokens = None  # type: ignore[assignment]


class Stepless(MixedRunningFirst):
    def __init__(self, context: PolicyContext) -> None:
        pass

    def compose(self, state: SchedulerState) -> Any:
        return None


class Vague(PagedAllocator):
    def __init__(self, context: PolicyContext) -> None:
        super().__init__(context.config)

    def find_hit(self, sequence: Sequence) -> Any:
        return None


def unsortable(entry: Entry) -> Any:
    return (object(),)


class UnreadableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def unreadable(entry: Entry) -> Any:
    raise UnreadableError


class Boundless:
    """Guesses a number that no column of the run can hold."""

    def __init__(self, context: PolicyContext) -> None:
        pass

    def output_tokens(self, sequence: Sequence) -> int:
        return 2**70

    def finished(self, sequence: Sequence) -> None:
        pass


def overflowing(entry: Entry) -> Any:
    return (math.exp(1000.0 + entry.num_hits),)


def oldest(entry: Entry) -> Any:
    """Who was used least recently."""
    return (entry.last_access,)


def talkative(entry: Entry) -> Any:
    raise ValueError("first line\n\nsecond line")


def first(running: list[Sequence], state: SchedulerState) -> Sequence:
    """Who came first."""
    return running[0]


def leaving(running: list[Sequence], state: SchedulerState) -> Any:
    sys.exit(5)


@pytest.fixture(autouse=True)
def this_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """This file under a name that a scenario can give."""
    module = ModuleType("zoo")
    vars(module).update(globals())
    monkeypatch.setitem(sys.modules, "zoo", module)


@pytest.mark.parametrize(
    ("kind", "name", "rule"),
    [
        ("queue", "Forgetful", "after push it holds 2 sequences, 3 wait"),
        ("queue", "Inconstant", "pop gave <r.*>, but head gave <r"),
        ("queue", "Bare", "called with one PolicyContext, it raised TypeError"),
        ("batching", "Crashing", "compose raised ZeroDivisionError"),
        ("batching", "Generous", r"gets 1\d\d\d tokens; expected 1 to \d+"),
        ("batching", "Skipping", r"starts at token \d+, but has computed \d+"),
        ("batching", "Doubling", "gets tokens twice in one step"),
        ("batching", "Dropping", r"of \d+ sequences that ran or waited, \d+ are left"),
        ("batching", "Standing", r"\d+ sequences run, max_num_seqs is \d+"),
        ("allocator", "Boastful", r"find_hit gave \d+ tokens for .*; the last token cannot"),
        ("allocator", "Leaking", "memory is lost, or counted twice"),
        (
            "allocator",
            "Keeping",
            r"after finish owners gave \[0, 1, 2\]; expected \[1, 2\]",
        ),
        ("eviction", "no_tuple", r"it gave \d+; expected a tuple that sorts"),
        ("eviction", "crashing_key", "it raised ZeroDivisionError"),
        ("eviction", "Grabbing", r"victim gave <block .*, which may not be evicted; \d+ may"),
        ("victim", "nobody", "it chose None, which does not run"),
        ("predictor", "Guessing", r"output_tokens gave 3 for .*, which has (\d\d|[3-9]) already"),
        ("allocator", "Mumbling", "refusal gave 'no'; expected 'blocks'"),
        ("allocator", "Halving", r"num_empty gave \d+\.\d; expected a whole number >= 0"),
        ("batching", "Mutating", r"the engine failed on .* \(TypeError: .*NoneType"),
        ("batching", "Stepless", r"\(AttributeError: 'NoneType' object has no attribute 'dropped'"),
        ("allocator", "Vague", r"\(AttributeError: 'NoneType' object has no attribute 'tokens'"),
        ("eviction", "unsortable", "the engine failed on what the policy returned"),
        ("eviction", "overflowing", "it raised OverflowError: math range error"),
        ("predictor", "Boundless", r"the engine failed on .* \(OverflowError: "),
        ("eviction", "unreadable", r"it raised UnreadableError$"),
        ("eviction", "talkative", r"it raised ValueError: first line second line$"),
        ("victim", "leaving", r"it raised SystemExit: 5$"),
    ],
)
def test_a_broken_rule_stops_the_run_with_name_and_rule(kind: str, name: str, rule: str) -> None:
    faults = [one.fault for one in check_policy(kind, f"zoo:{name}", num_runs=25) if one.fault]
    assert faults, "nothing was found"
    assert re.search(rule, faults[0]), faults[0]
    assert f"'zoo:{name}'" in faults[0]


@pytest.mark.parametrize(
    ("kind", "found"),
    [("queue", Forgetful), ("eviction", Grabbing), ("eviction", oldest), ("victim", first)],
)
def test_a_plug_in_is_listed_by_its_own_words(kind: str, found: Any) -> None:
    assert found.__doc__
    assert KINDS[kind].registry.find(f"zoo:{found.__name__}").__doc__ == found.__doc__


@pytest.mark.parametrize("step", [True, False])
def test_the_clocks_end_is_no_fault_of_a_policy_of_ones_own(step: bool) -> None:
    trace = Trace("one", np.zeros(1, np.int64), np.array([20]), np.array([9]))
    config = engine_config(num_gpu_blocks=9, max_model_len=100, eviction__policy="zoo:oldest")
    with pytest.raises(ValueError, match=r"^the simulated time passes 106 days"):
        run(trace, config, LinearCost(10**19), max_tokens=np.array([20]), step=step)
