"""Memory, waiting and running time of random tight scenarios, block by block and visit by visit.

A second account is kept from snapshots after every scheduling call: each physical block is looked
at slot by slot, each request's visits to queue and running list are timed. Both must add up to
the recorder's integrals exactly. Blocks with keys are vLLM's, or pages of a radix tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.policies.allocators import PagedAllocator, RadixAllocator
from kvsim.policies.preemption import VICTIMS
from kvsim.policies.retention import HeavyHitters, make_retention
from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig
from kvsim.sim.cost.host_link import HostLink
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.engine.driver import Driver
from kvsim.sim.engine.listener import ScheduleListener
from kvsim.sim.engine.requests import Requests
from kvsim.sim.engine.stepper import Stepper
from kvsim.sim.metrics.shares import all_time, while_waiting
from kvsim.sim.pool.shape import PoolShape
from kvsim.sim.recording.recorder import FINISHED, REFUSED, Recorder
from kvsim.traces.adjust.max_tokens import assume_max_tokens
from kvsim.traces.trace.trace import LENGTH, STOP, PrefixIds, Trace
from tests.engine_config import engine_config

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kvsim.policies.allocators.base import Hit
    from kvsim.policies.allocators.block_pool import Block
    from kvsim.policies.sequence import Sequence
    from kvsim.sim.engine.steps_in_flight import Results, StepInFlight

    Residency = tuple[int, int]  # index, preemptions before

MODEL_LEN = 40
FULL = (KVGroup(),)
GROUPS = (
    FULL,
    FULL,
    (KVGroup(sliding_window=5),),
    (KVGroup(), KVGroup(sliding_window=6)),
)


BATCHINGS: tuple[dict[str, Any], ...] = (
    {"batching__policy": "iteration-level"},
    {
        "batching__policy": "prefill-first",
        "batching__new_token_ratio": 0.05,
        "batching__clip_max_new_tokens": 6,
    },
    {
        "batching__policy": "prefill-first",
        "batching__prefill_rule": "watermark",
        "enable_chunked_prefill": False,
    },
    {"batching__policy": "static", "enable_prefix_caching": False},
    {
        "batching__policy": "token-budget",
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": 20,
    },
    {"batching__policy": "no-evict"},
)
"""Policies other than that of vLLM v1, and what they need."""


@st.composite
def other_configs(draw: st.DrawFn) -> SchedulerConfig:
    """Every other batching, with full attention; all but one wait for the results of a step."""
    rules = draw(st.sampled_from(BATCHINGS))
    overlaps = rules["batching__policy"] in {"no-evict", "iteration-level"}
    prefix: Literal["hash", "radix"] = draw(st.sampled_from(["hash", "radix"]))
    if rules["batching__policy"] == "static":
        prefix = "hash"
    config = draw(configs(prefix, groups=(FULL,)))
    swaps = rules["batching__policy"] == "iteration-level" or "batching__prefill_rule" in rules
    is_async = overlaps and config.async_scheduling
    mode = config.preemption.mode if swaps and not is_async else "recompute"
    return engine_config(config, async_scheduling=is_async, preemption__mode=mode, **rules)


@st.composite
def configs(
    draw: st.DrawFn,
    prefix: Literal["hash", "radix"],
    groups: tuple[tuple[KVGroup, ...], ...] = GROUPS,
    *,
    chooses: bool = False,
) -> SchedulerConfig:
    """Rules under which every run ends, or refuses who puts others out for ever.

    Without the reserve two requests of equal priority and arrival may put each other out for ever.
    """
    chunked = draw(st.booleans())
    kv_groups = draw(st.sampled_from(groups))  # those with a window get room for a lone sequence
    if prefix == "radix":
        kv_groups = FULL
    policy = draw(st.sampled_from(["fcfs", "fcfs", "priority"]))
    block_size = draw(st.sampled_from([1, 2, 4]))
    asynchronous = draw(st.booleans())
    modes = (
        ["recompute"]
        if asynchronous or prefix == "radix" or chooses
        else ["recompute", "swap", "swap", "auto"]
    )
    retention = draw(retentions()) if chooses else {}
    caches = "retention__compaction" not in retention
    pool_tokens = draw(st.integers(18, 40) if kv_groups == FULL else st.integers(60, 80))
    return engine_config(
        block_size=block_size,
        num_gpu_blocks=1 + pool_tokens // block_size * len(kv_groups),
        max_num_batched_tokens=draw(st.integers(4, 24)) if chunked else MODEL_LEN,
        max_num_seqs=draw(st.integers(1, 4)),
        max_model_len=MODEL_LEN,
        enable_prefix_caching=prefix == "radix" or (caches and draw(st.booleans())),
        allocator__prefix=prefix,
        eviction__policy=draw(st.sampled_from(["lru", "slru", "filo"]))
        if prefix == "radix"
        else "lru",
        enable_chunked_prefill=chunked,
        batching__long_prefill_token_threshold=draw(st.sampled_from([0, 0, 3])),
        queue__policy=policy,
        batching__watermark=draw(st.sampled_from([0.0, 0.1])),
        batching__scheduler_reserve_full_isl=policy == "priority" or draw(st.booleans()),
        async_scheduling=asynchronous,
        preemption__victim=draw(
            st.sampled_from(sorted(VICTIMS.builtins.keys() - {"most-remaining"}))
        ),
        preemption__mode=draw(st.sampled_from(modes)),
        num_host_blocks=draw(st.integers(0, 30)),
        retention__prefix_cache_retention_interval=draw(st.sampled_from([None, 0])),
        kv_groups=kv_groups,
        allocator__freed_blocks_without_key=draw(st.sampled_from(["front", "back"])),
        **retention,
    )


@st.composite
def retentions(draw: st.DrawFn) -> dict[str, Any]:
    """What full attention is made to keep, with and without packing."""
    budget = draw(st.integers(3, 12))
    kind = draw(st.sampled_from(["sinks-recent", "fifo", "heavy-hitters"]))
    rules = {
        "retention__kind": kind,
        "retention__budget": budget,
        "retention__sinks": draw(st.integers(0, 2)),
        "retention__recent": draw(st.integers(1, budget)) if kind == "heavy-hitters" else None,
        "retention__heads": draw(st.integers(1, 3)),
        "retention__head_agreement": draw(st.sampled_from([0.0, 0.5])),
    }
    return rules | draw(st.sampled_from([{}, {"retention__compaction": "eager"}]))


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Up to ten requests in bursts; ids from an alphabet of two, with or without the answers."""
    number = draw(st.integers(1, 10))

    def column(low: int, high: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array(draw(st.lists(st.integers(low, high), min_size=number, max_size=number)))

    prompts, outputs = column(1, 16), column(1, 20)
    covers = draw(st.booleans())
    num_ids = -(-(prompts + outputs if covers else prompts) // 4)
    total_ids = int(num_ids.sum())
    ids = draw(st.lists(st.integers(1, 2), min_size=total_ids, max_size=total_ids))
    ends_by = np.where(column(0, 3) == 0, STOP, LENGTH).astype(np.uint8)
    return Trace(
        "random",
        np.cumsum(column(0, 1) * column(0, 8)),
        prompts,
        outputs,
        max_tokens=np.where(ends_by == STOP, -1, outputs),
        ends_by=ends_by,
        priority=column(0, 2),
        prefix=PrefixIds(4, np.concatenate([[0], np.cumsum(num_ids)]), np.array(ids), covers),
    )


LINK = HostLink(alpha_ps=7, bytes_per_s=10**11, block_bytes=3, copies_per_block=2)
COSTS = st.builds(
    LinearCost,
    st.sampled_from([0, 1500, 5000]),
    st.sampled_from([0, 100]),
    st.sampled_from([0, 70]),
    st.sampled_from([0, 3]),
)


class Blocks(NamedTuple):
    """What is blank, what is cached, and who owns each other block at which place."""

    blank: int
    cached: int
    owners: dict[Hashable, list[tuple[Residency, int, int]]]  # id: (residency, place, computed)
    keys: dict[Hashable, Hashable]
    dropped: dict[Hashable, list[set[int]]]  # id: slots that each owner dropped
    num_dropped: dict[int, int]  # index: tokens that a sequence dropped, of its last KV group


def paged_blocks(
    allocator: PagedAllocator,
    running: list[Sequence],
    size: int,
    dropped_by: Callable[[Sequence], list[set[int]]],
) -> Blocks:
    pool = allocator.pool
    owners: dict[Hashable, list[tuple[Residency, int, int]]] = {}
    owned: dict[int, Block] = {}
    dropped: dict[Hashable, list[set[int]]] = {}
    num_dropped: dict[int, int] = {}
    for sequence in running:
        residency = (sequence.index, sequence.num_preemptions)
        for group, gone in zip(allocator.groups, dropped_by(sequence), strict=True):
            num_dropped[sequence.index] = len(gone)
            for place, block in enumerate(group.tables[sequence.index]):
                if block is not pool.null:
                    owned[block.id] = block
                    slots = {token - place * size for token in gone} & set(range(size))
                    dropped.setdefault(block.id, []).append(slots)
                    owners.setdefault(block.id, []).append(
                        (residency, place, sequence.num_computed_tokens)
                    )
    queued = list(pool.free_queue)
    return Blocks(
        sum(block.key is None for block in queued),
        sum(block.key is not None for block in queued),
        owners,
        {number: block.key for number, block in owned.items() if block.key is not None},
        dropped,
        num_dropped,
    )


def tree_pages(allocator: RadixAllocator, running: list[Sequence]) -> Blocks:
    """Pages of the tree by their node, those outside by their owner; keys spell their content."""
    size, cache = allocator.page_size, allocator.cache
    owners: dict[Hashable, list[tuple[Residency, int, int]]] = {}
    keys: dict[Hashable, Hashable] = {}
    in_tree = {
        (node, place)
        for node in cache.tree.nodes()
        for place in range(node.run.start // size, node.run.stop // size)
    }
    for sequence in running:
        residency = (sequence.index, sequence.num_preemptions)
        lease = allocator.lease_of(sequence)
        shared, node = lease.num_shared // size, lease.node
        while node.parent is not None:
            for place in range(node.run.start // size, node.run.stop // size):
                owners.setdefault((node, place), []).append(
                    (residency, place, sequence.num_computed_tokens)
                )
                keys[node, place] = sequence.block_key(place, size)
            node = node.parent
        for place in range(shared, shared + lease.num_own // size):
            owners[residency, place] = [(residency, place, sequence.num_computed_tokens)]
    num_pages = cache.pool_tokens // size
    return Blocks(
        num_pages - len(in_tree | set(owners)), len(in_tree - set(owners)), owners, keys, {}, {}
    )


@dataclass
class Snapshot:
    """State from ``time_ps`` until the next one."""

    time_ps: int
    requests_wait: bool
    ended: set[int]
    blocks: Blocks


class Account(Stepper, ScheduleListener):
    """A stepper that is watched from outside; residencies are (index, preemptions before)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, audit=True, listener=self)
        self.snapshots: list[Snapshot] = []
        self.final: dict[Residency, int] = {}
        self.since: dict[int, tuple[str, int]] = {}  # where a request is, since when
        self.visits = {"waiting": 0, "running": 0}
        self.sojourns = 0
        self.on_host: dict[int, tuple[int, int, int]] = {}  # index: since when, blocks, computed
        self.host_block_ps = 0
        self.asked: dict[int, tuple[int, bool]] = {}  # index: tokens when it last dropped, prompt?
        self._watch_drops()

    def _watch_drops(self) -> None:
        """Note at which length each sequence was last asked what it keeps."""
        allocator = self.state.allocator
        admit, grow = allocator.admit, allocator.grow

        def noted_admit(sequence: Sequence, hit: Hit, new_tokens: int) -> None:
            self.asked[sequence.index] = (hit.tokens, hit.tokens < sequence.num_tokens - 1)
            admit(sequence, hit, new_tokens)

        def noted_grow(sequence: Sequence, new_tokens: int) -> bool:
            computed = sequence.num_computed_tokens - sequence.in_flight
            self.asked[sequence.index] = (computed, computed < sequence.num_tokens - 1)
            return grow(sequence, new_tokens)

        allocator.admit, allocator.grow = noted_admit, noted_grow  # type: ignore[method-assign]

    def dropped_by(self, sequence: Sequence) -> list[set[int]]:
        """Tokens that a sequence has dropped, by group, from the definition of each kind."""
        config, (computed, in_prompt) = self.config, self.asked[sequence.index]
        if config.keeps_everything:
            windows = (group.sliding_window or MODEL_LEN for group in config.kv_groups)
            return [set(range(computed - window + 1)) for window in windows]
        rules = config.retention
        assert rules.budget is not None
        recent = {"sinks-recent": rules.budget - rules.sinks}
        recent |= {"fifo": rules.budget, "heavy-hitters": rules.recent or 0}
        old = range(computed - recent[rules.kind] + 1)
        kept = set(range(rules.sinks)) if rules.kind == "sinks-recent" else set()
        if rules.kind == "heavy-hitters":
            if in_prompt:
                return [set()]
            retention = make_retention(config, config.kv_groups[0])
            assert isinstance(retention, HeavyHitters)
            scores = list(islice(retention.rows(sequence.index), len(old)))
            for head in range(config.retention_heads):
                heaviest = sorted(old, key=lambda token: -scores[token][head])
                kept |= set(heaviest[: retention.heavy])
        return [set(old) - kept]

    # ---- visits ----

    def _move(self, index: int, place: str | None, now_ps: int) -> None:
        arrival_ps = self._requests.arrival_ps[index]
        before, since_ps = self.since.pop(index, (None, arrival_ps))
        if before is not None:
            self.visits[before] += now_ps - since_ps
        if place is not None:
            self.since[index] = (place, now_ps)
        else:
            self.sojourns += now_ps - arrival_ps

    def add(self, index: int, now_ps: int) -> bool:
        entered = super().add(index, now_ps)
        if entered:
            self._move(index, "waiting", now_ps)
        return entered

    def called(self, stepper: Stepper, step_in_flight: StepInFlight) -> None:
        for preemption in step_in_flight.step.preempted:
            victim = preemption.sequence
            self._move(victim.index, "waiting", step_in_flight.call_ps)
            if preemption.swapped_blocks:
                assert victim.num_computed_tokens == preemption.num_computed_tokens, (
                    "swapped tokens are lost"
                )
                self.on_host[victim.index] = (
                    step_in_flight.call_ps,
                    preemption.swapped_blocks,
                    victim.num_computed_tokens,
                )
        for swap_in in step_in_flight.step.swapped_in:
            index = swap_in.sequence.index
            self._move(index, "running", step_in_flight.call_ps)
            since_ps, num_blocks, computed = self.on_host.pop(index)
            assert swap_in.num_blocks == num_blocks
            past = next(
                item.past for item in step_in_flight.items if item.sequence is swap_in.sequence
            )
            assert past == computed, "swapped tokens are lost"
            self.host_block_ps += num_blocks * (step_in_flight.call_ps - since_ps)
        for admission in step_in_flight.step.admitted:
            self._move(admission.sequence.index, "running", step_in_flight.call_ps)
        for item in step_in_flight.items:
            self.final[item.sequence.index, item.preemption_count] = item.past + item.num_tokens

    def applied(self, stepper: Stepper, results: Results) -> None:
        for index in results.finished:
            self._move(index, None, results.step_in_flight.end_ps)

    # ---- snapshots ----

    def plan(self, now_ps: int) -> int | None:
        boundary_ps = super().plan(now_ps)
        for index in list(self.since):
            if self.recorder.status[index] == REFUSED:  # it could never enter, or only alone
                self._move(index, None, now_ps)
        allocator = self.state.allocator
        owners = [*self.state.running, *self.state.ended]
        if isinstance(allocator, RadixAllocator):
            blocks = tree_pages(allocator, owners)
        else:
            assert isinstance(allocator, PagedAllocator)
            blocks = paged_blocks(allocator, owners, self.config.block_size, self.dropped_by)
        waits = self.state.num_waiting > 0
        ended = {sequence.index for sequence in self.state.ended}
        self.snapshots.append(Snapshot(now_ps, waits, ended, blocks))
        return boundary_ps

    def slots(self, snapshot: Snapshot) -> dict[str, int]:
        """Slots of the pool by what they hold, and sequences running."""
        size = self.config.block_size
        found = dict.fromkeys(("token", "duplicate", "future", "never", "padding"), 0)
        blocks = snapshot.blocks
        for number, owners in blocks.owners.items():
            fills = []
            for residency, place, computed in owners:
                now, final = (
                    min(max(tokens - place * size, 0), size)
                    for tokens in (computed, self.final[residency])
                )
                fills.append((now, final))
            assert len(set(fills)) == 1, "owners of a block see different tokens in it"
            assert len(fills) == 1 or fills[0][0] == size, "a shared block is not full"
            now, final = fills[0]
            assert number not in blocks.keys or now == size, "a block with a key is not full"
            found["padding" if owners[0][0][0] in snapshot.ended else "token"] += now
            found["future"] += final - now
            found["never"] += size - final
        num_holes = self._num_holes(blocks)
        found["token"] -= num_holes
        found["padding"] += num_holes
        keys = list(blocks.keys.values())
        found["duplicate"] = (len(keys) - len(set(keys))) * size
        found["token"] -= found["duplicate"]
        blank = blocks.blank * size
        waits = snapshot.requests_wait
        return found | {
            "hole": 0,
            "blocked": blank if waits else 0,
            "cached": blocks.cached * size,
            "free": 0 if waits else blank,
            "unusable": self.config.num_null_blocks * size,
        }

    def _num_holes(self, blocks: Blocks) -> int:
        """Slots whose token no owner keeps, those of the block's copies included."""
        if self.config.retention.compaction != "none":
            return self._num_unpacked(blocks)
        together: dict[Hashable, list[set[int]]] = {}
        for number, owners in blocks.dropped.items():
            together.setdefault(blocks.keys.get(number, number), []).extend(owners)
        return sum(len(set.intersection(*owners)) for owners in together.values())

    def _num_unpacked(self, blocks: Blocks) -> int:
        """The same where tokens move: what is computed in held slots, less what is kept at all."""
        computed: dict[int, int] = {}
        in_blocks = 0
        for owners in blocks.owners.values():
            (((index, _), place, tokens),) = owners  # nothing is shared without a cache
            computed[index] = tokens
            in_blocks += min(tokens - place * self.config.block_size, self.config.block_size)
        kept = sum(tokens - blocks.num_dropped[index] for index, tokens in computed.items())
        return in_blocks - kept


def total(account: Account, *, waiting_only: bool) -> dict[str, int]:
    """Integrals over the run (slot-ps): everything is blank before the first call."""
    size, usable = account.config.block_size, account.config.usable_blocks
    first_ps = account.snapshots[0].time_ps if account.snapshots else 0
    sums: dict[str, int] = {}
    if not waiting_only:
        sums = {"free": usable * size * first_ps}
        sums["unusable"] = account.config.num_null_blocks * size * first_ps
    for snapshot, after in zip(account.snapshots, account.snapshots[1:], strict=False):
        if waiting_only and not snapshot.requests_wait:
            continue
        ps = after.time_ps - snapshot.time_ps
        for name, slots in account.slots(snapshot).items():
            sums[name] = sums.get(name, 0) + slots * ps
    return sums


@pytest.mark.parametrize("prefix", ["hash", "radix"])
@given(data=st.data(), trace=traces(), cost=COSTS)
def test_integrals_against_every_block_and_visit(
    prefix: Literal["hash", "radix"], data: st.DataObject, trace: Trace, cost: LinearCost
) -> None:
    assert_accounts_agree(data.draw(configs(prefix)), trace, cost)


@given(configs("hash", groups=(FULL,), chooses=True), traces(), COSTS)
def test_integrals_where_tokens_are_dropped(
    config: SchedulerConfig, trace: Trace, cost: LinearCost
) -> None:
    assert_accounts_agree(config, trace, cost)


@given(other_configs(), traces(), COSTS)
def test_integrals_of_every_other_batching(
    config: SchedulerConfig, trace: Trace, cost: LinearCost
) -> None:
    assert_accounts_agree(config, trace, cost)


def assert_accounts_agree(config: SchedulerConfig, trace: Trace, cost: LinearCost) -> None:
    requests = Requests(trace, config, assume_max_tokens(trace, "model", config.max_model_len))
    recorder = Recorder(len(trace))
    account = Account(config, cost, requests, recorder, link=LINK)
    Driver(account, requests).run()
    assert set(recorder.status) <= {FINISHED, REFUSED}
    assert 0 < account.num_audited <= len(account.snapshots)

    pool = PoolShape(
        config.num_gpu_blocks,
        config.block_size,
        block_bytes=1,
        num_null_blocks=config.num_null_blocks,
    )
    for ours, theirs in (
        (total(account, waiting_only=False), all_time(recorder, pool)),
        (total(account, waiting_only=True), while_waiting(recorder, pool)),
    ):
        assert {name: ours.get(name, 0) for name in theirs} == theirs
        assert min(theirs.values()) >= 0

    integrals = {name: sum(values) for name, values in recorder.windows.items()}
    assert integrals["running"] == account.visits["running"]
    waited_ps = sum(recorder.waited_ps.values())
    assert waited_ps == account.visits["waiting"]
    assert integrals["running"] + waited_ps == account.sojourns
    assert integrals["host"] == account.host_block_ps
    assert recorder.swapped_out_blocks >= recorder.swapped_in_blocks
    assert recorder.num_swaps <= recorder.num_preemptions
