"""Whether decisions depend on hidden output lengths: run twice and compare.

In the second run, every request that was unfinished at some time gets another output length. A
boundary reveals a difference if a request finishes there in only one of the runs. Up to the first
such boundary both runs must make the same decisions. An earlier difference shows that a policy used
hidden output lengths.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvsim.sim.engine.listener import ScheduleListener
from kvsim.sim.run.drive import Engine, Watchers, run
from kvsim.sim.run.options import RunOptions

if TYPE_CHECKING:
    from random import Random

    from kvsim.sim.conformance.random_scenario import RandomScenario
    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.engine.steps_in_flight import Results, StepInFlight


class Call(NamedTuple):
    """One scheduling call; requests by index, times in ps."""

    call_ps: int
    start_ps: int
    end_ps: int
    items: tuple[tuple[int, int, int], ...]
    admitted: tuple[tuple[int, int, bool], ...]
    preempted: tuple[tuple[int, int], ...]
    waits_for: str | None
    num_evicted: int


class Result(NamedTuple):
    """Results applied at a boundary; they reveal output lengths."""

    end_ps: int
    sampled: tuple[int, ...]
    finished: tuple[int, ...]
    late: tuple[int, ...]
    dropped: tuple[int, ...]


class DecisionLog(ScheduleListener):
    """Records every call and every result."""

    def __init__(self) -> None:
        self.records: list[Call | Result] = []

    def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
        """Write what the call handed out."""
        step = step_in_flight.step
        self.records.append(
            Call(
                step_in_flight.call_ps,
                step_in_flight.start_ps,
                step_in_flight.end_ps,
                tuple(
                    (item.sequence.index, item.num_tokens, item.past)
                    for item in step_in_flight.items
                ),
                tuple((one.sequence.index, one.hit_tokens, one.resumed) for one in step.admitted),
                tuple((one.sequence.index, one.num_computed_tokens) for one in step.preempted),
                step.waits_for,
                stepper.state.allocator.num_evicted,
            )
        )

    def applied(self, stepper: Stepper, results: Results) -> None:
        """Write what the results revealed."""
        step_in_flight, finished, late, dropped = results
        sampled = tuple(item.sequence.index for item in step_in_flight.items if item.samples)
        self.records.append(
            Result(step_in_flight.end_ps, sampled, tuple(finished), tuple(late), tuple(dropped))
        )


Records = list[Call | Result]


def roomy(scenario: RandomScenario) -> RandomScenario:
    """Return the scenario with a pool that holds one sequence of any length; none is refused."""
    config = scenario.config
    most = -(-config.max_model_len // config.block_size) + 2
    return scenario._replace(
        config=replace(config, num_gpu_blocks=max(config.num_gpu_blocks, most))
    )


def decide(scenario: RandomScenario) -> Records:
    """Return the decisions of the stepper."""
    log = DecisionLog()
    trace, config, cost, max_tokens = scenario
    run(
        trace,
        Engine(config, cost),
        max_tokens=max_tokens,
        options=RunOptions(audit=True),
        watchers=Watchers(listener=log),
    )
    return log.records


def with_other_lengths(
    scenario: RandomScenario, records: Records, now_ps: int, rnd: Random
) -> RandomScenario:
    """Return the run with other output lengths for all requests unfinished at ``now_ps``.

    No output is shorter than what was sampled by then, or longer than its client allows.
    """
    trace, config = scenario.trace, scenario.config
    finished: set[int] = set()
    sampled = [0] * len(trace)
    for record in records:
        if isinstance(record, Result) and record.end_ps <= now_ps:
            finished.update(record.finished)
            for index in record.sampled:
                sampled[index] += 1
    outputs = trace.output_tokens.copy()
    room = config.max_model_len - trace.prompt_tokens
    most = np.minimum(scenario.max_tokens, room).tolist()
    for index in range(len(trace)):
        if index not in finished and sampled[index] < most[index]:
            outputs[index] = rnd.randint(sampled[index] + 1, most[index])
    return scenario._replace(trace=replace(trace, output_tokens=outputs))


def first_leak(first: Records, second: Records) -> Call | Result | None:
    """Return the first decision of ``second`` that differs before a difference was revealed."""
    for ours, theirs in zip(first, second, strict=False):
        if ours == theirs:
            continue
        reveals = isinstance(ours, Result) and isinstance(theirs, Result)
        if reveals and ours.end_ps == theirs.end_ps:
            return None
        return theirs
    return None


def find_length_leak(scenario: RandomScenario, rnd: Random) -> Call | Result | None:
    """Run a scenario twice, lengths changed from a random time on; return the leaking decision."""
    scenario = roomy(scenario)
    records = decide(scenario)
    if not records:
        return None
    now_ps = rnd.choice(records).end_ps
    other = with_other_lengths(scenario, records, now_ps, rnd)
    return first_leak(records, decide(other))
