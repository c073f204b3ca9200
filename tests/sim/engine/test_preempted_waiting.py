"""Requests that were preempted and wait again: a layer of the queue, exact in both engines."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.policies.preemption import MODES
from kvsim.sim.conformance.random_scenario import random_scenario
from kvsim.sim.cost.host_link import HostLink
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.engine.listener import ScheduleListener
from kvsim.sim.recording.recorder import ABORTED, FINISHED, Recorder
from kvsim.sim.recording.waiting_clock import CAUSES, PREEMPTED
from kvsim.traces.trace.trace import Trace
from tests.engine_config import engine_config
from tests.engine_run import run

if TYPE_CHECKING:
    from kvsim.sim.engine.stepper import Stepper

US = 10**6
LINK = HostLink(US // 10, 10**7, block_bytes=3, copies_per_block=2)


class Counting(ScheduleListener):
    """Looks at the whole queue after each scheduling call, and adds up who waits until the next."""

    def __init__(self) -> None:
        self.waited_ps = dict.fromkeys(CAUSES, 0)
        self._since_ps = self._num = 0
        self._cause = CAUSES[0]

    def planned(self, stepper: Stepper, now_ps: int) -> None:
        self.waited_ps[self._cause] += (now_ps - self._since_ps) * self._num
        state = stepper.state
        out = [*state.waiting, *state.swapped]
        self._num = sum(sequence.num_preemptions > 0 for sequence in out)
        self._since_ps, self._cause = now_ps, stepper.cause


def preempted_ps(recorder: Recorder) -> dict[str, int]:
    return {cause: sum(recorder.windows[PREEMPTED[cause]]) for cause in CAUSES}


def assert_part_of_the_queue(recorder: Recorder) -> None:
    for cause in CAUSES:
        pairs = zip(recorder.windows[PREEMPTED[cause]], recorder.windows[cause], strict=True)
        assert all(0 <= part <= whole for part, whole in pairs)


@pytest.mark.parametrize("seed", range(60))
def test_as_counted_one_by_one(seed: int) -> None:
    trace, config, cost, max_tokens = random_scenario(Random(seed))
    counting = Counting()
    recorder = run(trace, config, cost, max_tokens=max_tokens, listener=counting).recorder
    assert preempted_ps(recorder) == counting.waited_ps
    assert_part_of_the_queue(recorder)


def test_random_scenarios_do_preempt() -> None:
    waited = 0
    for seed in range(60):
        trace, config, cost, max_tokens = random_scenario(Random(seed))
        recorder = run(trace, config, cost, max_tokens=max_tokens).recorder
        waited += sum(preempted_ps(recorder).values()) > 0
    assert waited > 5


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize("patient", [True, False])
def test_swapped_and_given_up_as_counted_one_by_one(mode: str, *, patient: bool) -> None:
    seen, waited_ps = set(), 0
    for seed in range(12):
        rnd = Random(seed)
        rows = [(rnd.randint(1, 14), rnd.randint(1, 16)) for _ in range(12)]
        prompt, output = np.array(rows, dtype=np.int64).T
        arrival_ns = np.sort(np.array([rnd.randint(0, 20_000) for _ in rows]))
        limits = np.array([rnd.randint(8_000, 60_000) for _ in rows])
        timeout_ns = None if patient else limits
        trace = Trace("random", arrival_ns, prompt, output, timeout_ns=timeout_ns)
        config = engine_config(
            block_size=4,
            num_gpu_blocks=10,
            num_host_blocks=9,
            max_num_batched_tokens=16,
            max_model_len=40,
            enable_prefix_caching=False,
            preemption__mode=mode,
        )
        counting = Counting()
        cost = LinearCost(US, per_prefill_token_ps=US // 4)
        recorder = run(
            trace,
            config,
            cost,
            max_tokens=np.full(len(trace), 30),
            listener=counting,
            link=LINK,
        ).recorder
        assert preempted_ps(recorder) == counting.waited_ps
        assert_part_of_the_queue(recorder)
        seen |= set(recorder.status)
        waited_ps += sum(counting.waited_ps.values())
    assert seen == ({FINISHED} if patient else {FINISHED, ABORTED})
    assert waited_ps > 0
