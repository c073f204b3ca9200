"""Sequence groups in an engine: worked runs, and every block counted again from outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvsim.policies.allocators.grouped import GroupedAllocator
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.sim.cost.host_link import HostLink
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.engine.driver import Driver
from kvsim.sim.engine.requests import Requests
from kvsim.sim.engine.sequence_groups import BeamTree
from kvsim.sim.engine.stepper import Stepper
from kvsim.sim.metrics.shares import all_time, while_waiting
from kvsim.sim.pool.shape import PoolShape
from kvsim.sim.recording.recorder import FINISHED, REFUSED, Recorder
from kvsim.traces.trace.trace import Trace
from tests.engine_config import engine_config
from tests.engine_run import run

LINK = HostLink(alpha_ps=7, bytes_per_s=10**11, block_bytes=3, copies_per_block=2)
V0: dict[str, Any] = {
    "batching__policy": "prefill-first",
    "batching__prefill_rule": "watermark",
    "enable_chunked_prefill": False,
}


def make_config(**rules: Any) -> SchedulerConfig:
    values: dict[str, Any] = {
        "block_size": 4,
        "num_gpu_blocks": 31,
        "max_num_batched_tokens": 40,
        "max_num_seqs": 8,
        "max_model_len": 40,
        "enable_prefix_caching": False,
        "allocator__samples": "group",
        "preemption__mode": "swap-groups",
        "num_host_blocks": 1000,
    }
    return engine_config(**values | V0 | rules)


def make_trace(rows: list[tuple[int, int, int, int, int]]) -> Trace:
    """Rows of arrival in ns, prompt, output, samples and beams."""
    columns = np.array(rows, dtype=np.int64).T
    return Trace(
        "groups", columns[0], columns[1], columns[2], num_samples=columns[3], beam_width=columns[4]
    )


def run_groups(trace: Trace, config: SchedulerConfig, cost: LinearCost, **options: Any) -> Recorder:
    return run(
        trace,
        config,
        cost,
        max_tokens=np.asarray(trace.output_tokens),
        audit=True,
        link=LINK,
        **options,
    ).recorder


def test_three_samples_step_by_step() -> None:
    """A prompt of 10 in blocks of 4: a step of 100, 3 decodes of 1 each, 5 a copied token."""
    cost = LinearCost(100, per_decode_seq_ps=1, per_copied_token_ps=5)
    recorder = run_groups(make_trace([(0, 10, 5, 3, 1)]), make_config(), cost)
    ends = [100, 243, 346, 449, 552]  # the second step copies two blocks of 4: 40
    assert recorder.first_token_ps[0] == ends[0]
    assert recorder.finish_ps[0] == ends[-1]
    assert recorder.output_tokens[0] == 5
    assert recorder.further_tokens[0] == 10
    assert recorder.gaps.num == 12
    assert recorder.copied_on_write_blocks == 2
    assert recorder.copy_on_write_ps == 40
    totals = {name: sum(values) for name, values in recorder.windows.items()}
    # 3 blocks; then 5; then, with the third token, 8 (of 12 entries)
    physical = 3 * 100 + 5 * (143 + 103) + 8 * (103 + 103)
    logical = 3 * 100 + 9 * (143 + 103) + 12 * (103 + 103)
    assert 30 * 4 * 552 - totals["blank"] == 4 * physical
    assert totals["shared"] == 4 * (logical - physical)
    assert totals["never"] == 3 * 2 * (103 + 103)  # 14 tokens each: 2 of 16 slots, of three blocks
    assert totals["running"] == 552


def test_seats_count_sequences() -> None:
    trace = make_trace([(0, 4, 3, 5, 1), (0, 4, 3, 4, 1), (0, 4, 3, 1, 1), (0, 4, 3, 9, 1)])
    recorder = run_groups(trace, make_config(), LinearCost(10))
    assert list(recorder.first_scheduled_ps) == [0, 30, 30, -1]  # 5 + 4 > 8, and FCFS
    assert recorder.refusals == {3: "asks for 9 sequences, max_num_seqs is 8"}


def test_a_group_preempted_goes_out_and_comes_back_as_one() -> None:
    trace = make_trace([(0, 8, 12, 2, 1), (0, 8, 12, 2, 1)])
    recorder = run_groups(trace, make_config(num_gpu_blocks=11), LinearCost(1000))
    assert set(recorder.status) == {FINISHED}
    assert recorder.num_swaps == recorder.num_preemptions > 0
    assert recorder.swapped_out_blocks == recorder.swapped_in_blocks
    assert list(recorder.lost_tokens) == [0, 0]


def test_single_sequences_recompute_where_groups_swap() -> None:
    trace = make_trace([(0, 8, 12, 1, 1), (0, 8, 12, 1, 1)])
    recorder = run_groups(trace, make_config(num_gpu_blocks=8), LinearCost(1000))
    assert recorder.num_swaps == 0 < recorder.num_preemptions


def test_a_group_that_finds_the_host_full_ends_the_run() -> None:
    trace = make_trace([(0, 8, 12, 2, 1), (0, 8, 12, 2, 1)])
    config = make_config(num_gpu_blocks=11, num_host_blocks=2)
    with pytest.raises(ValueError, match=r"no room for the .* blocks of r0001. Its 2 sequences"):
        run_groups(trace, config, LinearCost(1000))


def test_what_can_never_run_is_refused_with_the_blocks_of_all_sequences() -> None:
    trace = make_trace([(0, 8, 13, 4, 1), (0, 8, 13, 1, 4), (0, 8, 1, 4, 1)])
    config = make_config(num_gpu_blocks=13, beam_turnover=1.0)
    recorder = run_groups(trace, config, LinearCost(10))
    assert recorder.refusals == {0: "needs 14 blocks, the pool has 12"}  # 2 + 4 x 3
    assert list(recorder.status) == [REFUSED, FINISHED, FINISHED]


def test_the_tree_draws_alike_for_one_request_whatever_else_runs() -> None:
    one, two = BeamTree(3, 0.5), BeamTree(3, 0.5)
    alone = [one.parents(7, 4) for _ in range(50)]
    mixed = []
    for _ in range(50):
        two.parents(1, 2)
        mixed.append(two.parents(7, 4))
    assert alone == mixed
    assert BeamTree(4, 0.5).parents(7, 4) != alone[0] or alone[0] is None
    drawn = [parents for parents in alone if parents is not None]
    assert 10 < len(drawn) < 40
    assert {parent for parents in drawn for parent in parents} == {0, 1, 2, 3}


def test_beams_drawn_anew_after_every_token_differ_by_a_few_tokens() -> None:
    """Width 2, turnover 1: two beams come from one with probability 1/2 a token."""
    config = make_config(block_size=1, num_gpu_blocks=2001, max_model_len=2000)
    config_rare = make_config(
        block_size=1, num_gpu_blocks=4001, max_model_len=2000, beam_turnover=1e-9
    )
    trace = make_trace([(0, 1, 1500, 1, 2)])
    often = run_groups(trace, engine_config(**_fields(config) | {"beam_turnover": 1.0}), COST)
    rare = run_groups(trace, config_rare, COST)
    assert saved(often, 2000) == pytest.approx(0.5, abs=0.003)
    assert saved(rare, 4000) == pytest.approx(1 / (2 * 751), abs=1e-4)  # the prompt's only token


COST = LinearCost(1)


def _fields(config: SchedulerConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in SchedulerConfig.__dataclass_fields__}


def saved(recorder: Recorder, usable_slots: int) -> float:
    """1 - physical / logical."""
    totals = {name: sum(values) for name, values in recorder.windows.items()}
    physical = usable_slots * totals["window"] - totals["blank"]
    return totals["shared"] / (physical + totals["shared"])


# ---- all blocks, from outside --------------------------------------------------------------


class Watch(Stepper):
    """Notes after every call which tables hold which blocks, and how far each is filled.

    A block's *tenure* is the time from its being taken to its being given up by all.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, audit=True, link=LINK)
        self.snapshots: list[tuple[int, bool, dict[tuple[int, int], int], int]] = []
        self.final: dict[tuple[int, int], int] = {}
        self._tenure: dict[int, int] = {}
        allocator = self.state.allocator
        assert isinstance(allocator, GroupedAllocator)
        self.allocator, take = allocator, allocator.pool.take

        def noted(number: int) -> Any:
            blocks = take(number)
            for block in blocks:
                self._tenure[block.id] = self._tenure.get(block.id, 0) + 1
            return blocks

        allocator.pool.take = noted  # type: ignore[method-assign, assignment]

    def plan(self, now_ps: int) -> int | None:
        boundary_ps = super().plan(now_ps)
        filled: dict[tuple[int, int], int] = {}
        entries = 0
        for sequence in self.state.running:
            if sequence.width > 1:
                tables = self.allocator._sequence_groups[sequence.index].tables
            else:
                tables = [self.allocator.groups[0].tables[sequence.index]]
            size = self.config.block_size
            for table in tables:
                for place, block in enumerate(table):
                    tokens = min(sequence.num_computed_tokens - place * size, size)
                    tenure = (block.id, self._tenure[block.id])
                    assert filled.setdefault(tenure, tokens) == tokens
                    entries += 1
        for tenure, tokens in filled.items():
            assert tokens >= self.final.get(tenure, 0), "a block lost tokens"
            self.final[tenure] = tokens
        waits = self.state.num_waiting > 0
        self.snapshots.append((now_ps, waits, filled, entries))
        return boundary_ps

    def totals(self, *, waiting_only: bool) -> dict[str, int]:
        """Integrals in slot-ps."""
        size = self.config.block_size
        sums = dict.fromkeys(("token", "future", "never", "shared"), 0)
        for snapshot, after in zip(self.snapshots, self.snapshots[1:], strict=False):
            now_ps, waits, filled, entries = snapshot
            ps = (after[0] - now_ps) * (waits or not waiting_only)
            sums["token"] += ps * sum(filled.values())
            sums["future"] += ps * sum(self.final[at] - tokens for at, tokens in filled.items())
            sums["never"] += ps * sum(size - self.final[at] for at in filled)
            sums["shared"] += ps * size * (entries - len(filled))
        return sums


@st.composite
def group_traces(draw: st.DrawFn) -> Trace:
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 8), st.integers(1, 14), st.integers(1, 16), st.integers(-3, 4)
            ),
            min_size=1,
            max_size=8,
        )
    )
    now_ns, made = 0, []
    for gap, prompt, output, several in rows:
        now_ns += gap
        made.append((now_ns, prompt, output, max(several, 1), max(-several, 1)))
    return make_trace(made)


@st.composite
def group_configs(draw: st.DrawFn) -> SchedulerConfig:
    mixed = {"batching__policy": "mixed-running-first", "enable_chunked_prefill": True}
    iteration = mixed | {"batching__policy": "iteration-level", "max_num_batched_tokens": 400}
    batching = draw(st.sampled_from([V0, mixed, mixed | {"max_num_batched_tokens": 9}, iteration]))
    block_size = draw(st.sampled_from([1, 2, 4]))
    return make_config(
        **batching,
        block_size=block_size,
        num_gpu_blocks=1 + draw(st.integers(30, 80)) // block_size,
        preemption__mode=draw(st.sampled_from(["swap", "swap-groups"])),
        preemption__victim=draw(
            st.sampled_from(["last", "first", "most-blocks", "least-progress"])
        ),
        batching__watermark=draw(st.sampled_from([0.0, 0.1])),
        max_num_seqs=draw(st.integers(4, 9)),
        beam_turnover=draw(st.sampled_from([0.2, 1.0])),
        allocator__freed_blocks_without_key=draw(st.sampled_from(["front", "back"])),
    )


@settings(max_examples=max(200, settings().max_examples))
@given(group_configs(), group_traces(), st.sampled_from([0, 1500]))
def test_integrals_against_every_block(config: SchedulerConfig, trace: Trace, base_ps: int) -> None:
    cost = LinearCost(base_ps, 100, 70, 3, 11)
    requests = Requests(trace, config, np.asarray(trace.output_tokens))
    recorder = Recorder(len(trace), max_flips=None)
    watch = Watch(config, cost, requests, recorder)
    Driver(watch, requests).run()
    assert set(recorder.status) <= {FINISHED, REFUSED}
    assert watch.allocator.pool.num_free == config.usable_blocks

    pool = PoolShape(config.num_gpu_blocks, config.block_size, block_bytes=1)
    for ours, theirs, shared in (
        (
            watch.totals(waiting_only=False),
            all_time(recorder, pool),
            sum(recorder.windows["shared"]),
        ),
        (
            watch.totals(waiting_only=True),
            while_waiting(recorder, pool),
            recorder.while_waiting["shared"],
        ),
    ):
        assert ours == {
            "token": theirs["token"],
            "future": theirs["future"],
            "never": theirs["never"],
            "shared": shared,
        }
    finished = np.asarray(recorder.status) == FINISHED
    assert trace.num_samples is not None
    assert trace.beam_width is not None
    widths = np.maximum(trace.num_samples, trace.beam_width)
    tokens = np.asarray(recorder.output_tokens) + np.asarray(recorder.further_tokens)
    assert tokens[finished].tolist() == (trace.output_tokens * widths)[finished].tolist()


@settings(max_examples=50)
@given(group_configs(), group_traces())
def test_rows_of_one_sequence_run_as_without_groups(config: SchedulerConfig, trace: Trace) -> None:
    single = Trace("one", trace.arrival_ns, trace.prompt_tokens, trace.output_tokens)
    grouped = make_trace(
        [
            (int(arrival), int(prompt), int(output), 1, 1)
            for arrival, prompt, output in zip(
                trace.arrival_ns, trace.prompt_tokens, trace.output_tokens, strict=True
            )
        ]
    )
    cost = LinearCost(50, 100, 70, 3)
    fields = _fields(config)
    with_groups = run_groups(grouped, config, cost, step=True)
    without = run_groups(
        single, engine_config(**fields | {"allocator__samples": "requests"}), cost, step=True
    )
    assert with_groups.windows == without.windows
    assert list(with_groups.finish_ps) == list(without.finish_ps)
