"""Swapping in time, worked out by hand; and every victim in every mode on tight random traces."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.policies.preemption import MODES, VICTIMS
from kvsim.sim.conformance.stepper_log import StepperLog
from kvsim.sim.cost.host_link import HostLink
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.recording.recorder import ABORTED, FINISHED
from kvsim.traces.trace.trace import Trace
from tests.engine_config import engine_config
from tests.engine_run import run

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.run.drive import EngineRun

US = 10**6  # one microsecond in ps: the length of every step
LINK = HostLink(alpha_ps=US // 10, bytes_per_s=10**7, block_bytes=3, copies_per_block=2)
"""Two blocks take 4 x 0.1 us + 6 B / (10 MB/s) = 1 us in one direction."""


def make_trace(*rows: tuple[int, int], timeout_us: tuple[int, ...] = ()) -> Trace:
    """Rows of (prompt, output), all at 0."""
    prompt, output = np.array(rows, dtype=np.int64).T
    timeout_ns = np.array(timeout_us, dtype=np.int64) * 1000 if timeout_us else None
    return Trace("hand-made", np.zeros_like(prompt), prompt, output, timeout_ns=timeout_ns)


def make_config(**rules: object) -> SchedulerConfig:
    defaults = {
        "block_size": 4,
        "num_gpu_blocks": 5,
        "max_num_batched_tokens": 16,
        "max_model_len": 40,
        "enable_prefix_caching": False,
        "preemption__mode": "swap",
        "num_host_blocks": 8,
    }
    return engine_config(**(defaults | rules))


def stepped(
    trace: Trace,
    config: SchedulerConfig,
    *,
    link: HostLink = LINK,
    cost: LinearCost | None = None,
    listener: StepperLog | None = None,
) -> EngineRun:
    return run(
        trace,
        config,
        cost or LinearCost(US),
        max_tokens=np.full(len(trace), 30),
        audit=True,
        listener=listener,
        link=link,
    )


# 4 blocks. r0 (8 + 4) and r1 (7 + 4) hold 2 each; in the second step r0 takes a third one.
TWO = make_trace((8, 4), (7, 4))


def plan_of(trace: Trace, config: SchedulerConfig, link: HostLink = LINK) -> list[str]:
    """Each step as text: start and end in us, who gets how many tokens, who leaves, who ends."""
    log = StepperLog(trace)
    stepped(trace, config, link=link, listener=log)
    lines = []
    for record in log.records:
        line = f"{record['t0'] // 1000}-{record['t1'] // 1000}:"
        line += "".join(f" {name[-1]}+{tokens}" for name, tokens, _, _ in record["sched"])
        line += "".join(f" -{name[-1]}" for name, _ in record["preempted"])
        line += "".join(f" .{name[-1]}" for name in record["finished"])
        lines.append(line)
    return lines


def test_copies_before_the_step() -> None:
    assert plan_of(TWO, make_config()) == [
        "0-1: 0+8 1+7",
        "1-3: 0+1 -1",  # 1 us of copies, 1 us of step
        "3-4: 0+1",
        "4-5: 0+1 .0",
        "5-7: 1+1",  # and back
        "7-8: 1+1",
        "8-9: 1+1 .1",
    ]
    recorder = stepped(TWO, make_config()).recorder
    assert list(recorder.finish_ps) == [5 * US, 9 * US]
    assert (recorder.num_stalls, recorder.longest_stall_ps) == (1, 6 * US)  # tokens at 1 and 7
    assert (recorder.num_preemptions, recorder.num_swaps) == (1, 1)
    assert (recorder.swapped_out_blocks, recorder.swapped_in_blocks) == (2, 2)
    assert recorder.copying_ps == 2 * US
    assert list(recorder.lost_tokens) == [0, 0]
    assert list(recorder.resume_hit_tokens) == [0, 0]
    assert sum(recorder.windows["host"]) == 2 * 4 * US  # from the call at 1 to the one at 5
    assert recorder.peak_host_blocks == 2
    assert recorder.waited_ps["blocks"] == 4 * US
    assert sum(recorder.windows["preempted, blocks"]) == 4 * US  # it ran before


def test_copies_beside_the_step() -> None:
    link = HostLink(US // 10, 10**7, block_bytes=3, copies_per_block=2, overlaps=True)
    assert plan_of(TWO, make_config(), link) == [
        "0-1: 0+8 1+7",
        "1-2: 0+1 -1",
        "2-3: 0+1",
        "3-4: 0+1 .0",
        "4-5: 1+1",
        "5-6: 1+1",
        "6-7: 1+1 .1",
    ]
    recorder = stepped(TWO, make_config(), link=link).recorder
    assert (recorder.num_stalls, recorder.longest_stall_ps) == (1, 4 * US)
    assert recorder.copying_ps == 2 * US


def test_engine_v0_admits_nobody_while_anybody_is_out() -> None:
    """And whoever comes back has a decode step before the next prompt has its own."""
    trace = make_trace((8, 4), (7, 4), (1, 1))
    trace.arrival_ns[2] = 2000
    config = make_config(
        batching__policy="prefill-first",
        batching__prefill_rule="watermark",
        batching__watermark=0.01,
    )
    assert plan_of(trace, config) == [
        "0-1: 0+8 1+7",
        "1-3: 0+1 -1",
        "3-4: 0+1",  # 1 block is free: r2 would fit, but r1 is out
        "4-5: 0+1 .0",
        "5-7: 1+1",
        "7-8: 2+1 .2",
        "8-9: 1+1",
        "9-10: 1+1 .1",
    ]


def test_engine_v0_keeps_its_watermark_for_those_that_return() -> None:
    config = make_config(
        batching__policy="prefill-first",
        batching__prefill_rule="watermark",
        batching__watermark=0.4,
    )
    assert plan_of(make_trace((4, 9), (4, 6)), config) == [
        "0-1: 0+4 1+4",  # 2 of 4 blocks stay free
        "1-2: 0+1 1+1",
        "2-4: 0+1 -1",  # r0 has room, but the engine wants a free block for everybody
        "4-5: 0+1",  # 2 are free and r1 needs 2
        "5-6: 0+1",
        "6-7: 0+1",
        "7-8: 0+1",
        "8-9: 0+1",
        "9-10: 0+1 .0",
        "10-12: 1+1",
        "12-13: 1+1",
        "13-14: 1+1",
        "14-15: 1+1 .1",
    ]


def test_a_full_host_computes_again() -> None:
    recorder = stepped(TWO, make_config(num_host_blocks=1)).recorder
    assert (recorder.num_preemptions, recorder.num_swaps, recorder.num_host_full) == (1, 0, 1)
    assert list(recorder.lost_tokens) == [0, 7]
    assert recorder.copying_ps == 0
    assert sum(recorder.windows["host"]) == 0


def test_auto_says_how_often_it_was_right() -> None:
    # r1 lost 7 of 8 tokens: again costs 7 us more at 1 us a prefill token; copies cost 2 us
    dear = LinearCost(US, per_prefill_token_ps=US)
    recorder = stepped(TWO, make_config(preemption__mode="auto"), cost=dear).recorder
    assert recorder.num_swaps == 1
    assert recorder.num_judged == recorder.num_right == {"swap": 1, "recompute": 0}
    cheap = LinearCost(US, per_prefill_token_ps=US // 10)  # 0.7 us
    recorder = stepped(TWO, make_config(preemption__mode="auto"), cost=cheap).recorder
    assert recorder.num_swaps == 0
    assert recorder.num_judged == recorder.num_right == {"swap": 0, "recompute": 1}


def test_a_client_that_gives_up_on_the_host_frees_its_blocks_there() -> None:
    trace = make_trace((8, 4), (7, 4), timeout_us=(-1, 4))
    recorder = stepped(trace, make_config()).recorder
    assert list(recorder.status) == [FINISHED, ABORTED]
    assert recorder.finish_ps[1] == 4 * US
    assert (recorder.swapped_out_blocks, recorder.swapped_in_blocks) == (2, 0)
    assert sum(recorder.windows["host"]) == 2 * 3 * US


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ({}, "preemption by swap is stepped through"),
        ({"preemption__mode": "auto"}, "preemption by auto is stepped through"),
        (
            {"preemption__mode": "recompute", "preemption__victim": "first"},
            "victim first is stepped through",
        ),
    ],
)
def test_the_stepper_runs_and_says_why(rules: dict[str, object], why: str) -> None:
    ran = stepped(TWO, make_config(**rules))
    assert (ran.engine, ran.reason) == ("stepper", why)


@pytest.mark.parametrize("victim", ["by-queue", "last"])
def test_the_leaper_knows_the_last_one(victim: str) -> None:
    config = make_config(preemption__mode="recompute", preemption__victim=victim, max_num_seqs=8)
    assert stepped(TWO, config).engine == "leaper"


def random_trace(seed: int) -> Trace:
    rnd = Random(seed)
    rows = [(rnd.randint(1, 14), rnd.randint(1, 16)) for _ in range(12)]
    prompt, output = np.array(rows, dtype=np.int64).T
    arrival_ns = np.sort(np.array([rnd.randint(0, 20_000) for _ in rows]))
    priority = np.array([rnd.randint(0, 2) for _ in rows])
    return Trace("random", arrival_ns, prompt, output, priority=priority)


BUILT_IN = sorted(VICTIMS.builtins.keys() - {"most-remaining"})


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize("victim", BUILT_IN)
class TestEveryVictimInEveryMode:
    COST = LinearCost(US, per_prefill_token_ps=US // 4)

    def rules(self, victim: str, mode: str) -> dict[str, Any]:
        return {
            "preemption__victim": victim,
            "preemption__mode": mode,
            "num_gpu_blocks": 10,
            "num_host_blocks": 9,
            "queue__policy": "priority" if victim == "lowest-priority" else "fcfs",
        }

    def test_everybody_finishes_and_nothing_is_left(self, victim: str, mode: str) -> None:
        preemptions = swaps = 0
        for seed in range(8):
            trace = random_trace(seed)
            config = make_config(**self.rules(victim, mode))
            recorder = stepped(trace, config, cost=self.COST).recorder
            assert set(recorder.status) == {FINISHED}
            assert list(recorder.output_tokens) == trace.output_tokens.tolist()
            assert recorder.swapped_in_blocks == recorder.swapped_out_blocks
            assert sum(recorder.num_judged.values()) == (
                recorder.num_preemptions - recorder.num_host_full if mode == "auto" else 0
            )
            preemptions += recorder.num_preemptions
            swaps += recorder.num_swaps
        assert preemptions > 5
        assert (swaps > 0) == (mode in {"swap", "auto"}), "no request is a group"

    def test_the_same_run_twice(self, victim: str, mode: str) -> None:
        logs = []
        for _ in range(2):
            log = StepperLog(random_trace(3))
            config = make_config(**self.rules(victim, mode))
            stepped(random_trace(3), config, cost=self.COST, listener=log)
            logs.append((log.records, log.requests()))
        assert logs[0] == logs[1]

    def test_does_not_see_how_long_answers_will_be(self, victim: str, mode: str) -> None:
        """Another length for each unfinished request: the same steps until one of them shows."""
        for seed in range(4):
            trace, longer = random_trace(seed), random_trace(seed)
            longer.output_tokens[:] += 1 + np.arange(len(longer)) % 3
            config = make_config(**self.rules(victim, mode))
            plans = []
            for one in (trace, longer):
                log = StepperLog(one)
                stepped(one, config, cost=self.COST, listener=log)
                plans.append(log.records)
            first_end = next(i for i, record in enumerate(plans[0]) if record["finished"])
            decided = ("sched", "admitted", "preempted", "t0", "t1")
            for record, other in zip(*(plan[: first_end + 1] for plan in plans), strict=True):
                assert [record[key] for key in decided] == [other[key] for key in decided]
