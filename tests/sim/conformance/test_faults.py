"""Each rule that a recorded schedule can tell, changed: the schedule is no longer identical.

Rows are those of ``vllm-semantics.md`` section 17. A fault is a literal change of source text, made
for the length of one test; text that is no longer there fails the test, so a patch never goes
stale in silence. The scenario is a quick one that is sensitive to the rule. (Long because it is a
table.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import pytest

from kvsim.policies.allocators.block_pool import BlockPool, FreeQueue
from kvsim.policies.allocators.kv_group import GroupTables
from kvsim.policies.allocators.paged import PagedAllocator
from kvsim.policies.batching.mixed_running_first import MixedRunningFirst
from kvsim.policies.queue_order.fcfs import FCFS
from kvsim.policies.retention.sinks_recent import SinksRecent
from kvsim.policies.sequence import Sequence
from kvsim.sim.conformance.schedule_replay import Verdict, replay
from kvsim.sim.engine.closed_loop_driver import SessionDriver
from kvsim.sim.engine.requests import Requests
from kvsim.sim.engine.stepper import Stepper
from kvsim.sim.engine.steps_in_flight import StepsInFlight

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.conformance.vllm_log import GoldenLog
    from kvsim.traces import Trace

    ChangeSource = Callable[[type, str, str, str], None]
    Recorded = Callable[[str], tuple[GoldenLog, Trace]]


@dataclass(frozen=True)
class Fault:
    """One row: what is wrong, where it shows, and the changes of source."""

    mistake: str
    scenario: str
    edits: tuple[tuple[type, str, str, str], ...]


def fault(mistake: str, scenario: str, *edits: tuple[type, str, str, str]) -> Fault:
    return Fault(mistake, scenario, edits)


MERGE = """\
twin = self._lookup(sequence, index)
            if twin is None:
                self._set_key(sequence, index)
            else:
                self._pool.touch(twin)
                table[index] = twin
                self._pool.release([block])"""

KEY_OF_GROUP_0 = "(0, sequence.block_key(index,"

CACHE = [
    fault(
        "whole prompt may hit",
        "fullhit_bs16",
        (
            PagedAllocator,
            "find_hit",
            "(sequence.num_tokens - 1) // self._block_size",
            "sequence.num_tokens // self._block_size",
        ),
    ),
    fault(
        "blocks given up head first",
        "micro",
        (
            GroupTables,
            "release",
            "reversed(self.tables.pop(sequence.index))",
            "self.tables.pop(sequence.index)",
        ),
    ),
    fault(
        "blocks without key to the back",
        "micro",
        (
            PagedAllocator,
            "__init__",
            'unkeyed_to_front=config.allocator.freed_blocks_without_key == "front"',
            "unkeyed_to_front=False",
        ),
    ),
    fault(
        "their order at the front flipped",
        "micro_nocache",
        (FreeQueue, "push_front", "reversed(blocks)", "blocks"),
    ),
    fault(
        "cached only after the step (no hit within it)",
        "micro",
        (
            PagedAllocator,
            "admit",
            "self.set_keys(sequence, min(hit.tokens + new_tokens, sequence.num_tokens))",
            "pass",
        ),
        (
            PagedAllocator,
            "grow",
            "self.set_keys(sequence, min(tokens, sequence.num_tokens))",
            "pass",
        ),
        (
            Stepper,
            "_apply_item",
            "sequence.in_flight -= item.num_tokens",
            "sequence.in_flight -= item.num_tokens; "
            "self.state.allocator.set_keys("
            "sequence, min(sequence.num_computed_tokens, sequence.num_tokens))",
        ),
    ),
    fault(
        "block completed by the last sampled token is cached",
        "fullhit_bs16",
        (
            Stepper,
            "_apply_item",
            "min(computed, sequence.num_tokens - 1)",
            "computed + done",
        ),
    ),
    fault(
        "newest duplicate is hit",
        "hybrid_tree_r0",
        (BlockPool, "lookup", "next(iter(copies.values()))", "next(reversed(copies.values()))"),
    ),
    fault(
        "duplicates merged",
        "fullhit_bs16",
        (GroupTables, "set_keys", "self._set_key(sequence, index)", MERGE),
    ),
    fault(
        "free hit blocks not counted as needed",
        "watermark_no_reserve",
        (GroupTables, "num_free_hit_blocks", "block.ref_count == 0", "False"),
    ),
    fault(
        "no lookup on resume",
        "micro",
        (
            PagedAllocator,
            "find_hit",
            "if not self._caching",
            "if sequence.num_preemptions or not self._caching",
        ),
    ),
]

SCHEDULING = [
    fault(
        "preempted to the back of the queue",
        "micro",
        (FCFS, "push_preempted", "appendleft", "append"),
    ),
    fault(
        "FCFS victim is the first",
        "micro",
        (MixedRunningFirst, "_serve_running", "state.victim(running, state)", "running[0]"),
    ),
    fault(
        "waiting scanned after a preemption",
        "mixed_priority_threshold",
        (MixedRunningFirst, "compose", "if step.preempted:", "if False:"),
    ),
    fault(
        "chunk not cut to the budget",
        "tight_small_budget",
        (MixedRunningFirst, "_admit_waiting", "min(cap, budget))", "cap)"),
    ),
    fault(
        "no exception from the threshold for a lone request",
        "long_threshold_tight",
        (MixedRunningFirst, "_chunk_cap", "and not exempt", ""),
    ),
    fault(
        "threshold not for running requests",
        "long_threshold_tight",
        (MixedRunningFirst, "_serve_running", "min(cap, budget))", "budget)"),
    ),
    fault(
        "no full-sequence reserve",
        "tight_small_budget",
        (PagedAllocator, "refusal", "self._reserve and", "False and"),
    ),
    fault(
        "reserve forgets free hit blocks",
        "mixed_priority",
        (PagedAllocator, "refusal", "reserve = extra + sum(", "reserve = sum("),
    ),
    fault(
        "watermark when nothing runs",
        "watermark_idle",
        (
            PagedAllocator,
            "refusal",
            "0 if idle else self._watermark_blocks",
            "self._watermark_blocks",
        ),
    ),
    fault(
        "watermark of usable blocks",
        "watermark_rounding",
        (
            PagedAllocator,
            "__init__",
            "config.batching.watermark * config.num_gpu_blocks",
            "config.batching.watermark * (config.num_gpu_blocks - 1)",
        ),
    ),
    fault(
        "watermark in the first test only",
        "watermark_no_reserve",
        (PagedAllocator, "refusal", "chunk + keep > free", "chunk > free"),
    ),
    fault(
        "watermark for running requests too",
        "watermark_no_reserve",
        (
            PagedAllocator,
            "grow",
            "> self.pool.num_free",
            "> self.pool.num_free - self._watermark_blocks",
        ),
    ),
    fault(
        "priority: position not moved back",
        "priority",
        (MixedRunningFirst, "_serve_running", "position -= 1", "pass"),
    ),
    fault(
        "priority: budget not given back",
        "mixed_priority_threshold",
        (MixedRunningFirst, "_serve_running", "budget += returned", "pass"),
    ),
    fault(
        "priority: last of equals is the victim",
        "priority",
        (
            MixedRunningFirst,
            "_serve_running",
            "state.victim(running, state)",
            "state.victim(running[::-1], state)",
        ),
    ),
]

WINDOWS = [
    fault(
        "window: blocks never given up",
        "hybrid_shared_tight_r0",
        (PagedAllocator, "grow", "if group.retention.size is not None:", "if False:"),
    ),
    fault(
        "window: one token off",
        "hybrid_shared_tight_r0",
        (SinksRecent, "kept", "computed - self.recent + 1", "computed - self.recent"),
    ),
    fault(
        "window: no admission cap",
        "hybrid_mixed_tight",
        (GroupTables, "num_reserved", "if self._cap_blocks is not None:", "if False:"),
    ),
    fault(
        "window: hit needs ceil(W / bs) blocks",
        "swa_multiturn_w129",
        (
            GroupTables,
            "__init__",
            "-(-(window - 1) // block_size)",
            "-(-window // block_size)",
        ),
    ),
    fault(
        "window: hit needs the whole prefix",
        "hybrid_tree_r0",
        (GroupTables, "find_hit", "if first.window is None:", "if True:"),
    ),
    fault(
        "retention 0 ignored",
        "hybrid_tree_r0",
        (GroupTables, "_keeps", "self.window is None", "True"),
    ),
    fault(
        "no junction",
        "hybrid_tree_r0",
        (GroupTables, "_keeps", "sequence.junction_blocks", "0"),
    ),
    fault(
        "keys shared between groups",
        "hybrid_shared_tight_r0",
        (GroupTables, "_lookup", "(self.number, ", "(0, "),
        (GroupTables, "_set_key", "(self.number, sequence.block_key(index,", KEY_OF_GROUP_0),
    ),
]

GROUPS = [
    fault(
        "retention above 0 acts as 0",
        "x60038",
        (GroupTables, "_keeps", "if interval and", "if False and"),
    ),
    fault(
        "window of one token needs a block",
        "x62031",
        (GroupTables, "__init__", "-(-(window - 1) // block_size)", "-(-window // block_size)"),
    ),
    fault(
        "groups looked up in the engine's order",
        "min_x63029",
        (
            PagedAllocator,
            "find_hit",
            "cycle(self._looked_up)",
            "cycle(sorted(self._looked_up, key=lambda alike: alike[0].number))",
        ),
    ),
    fault(
        "groups give up blocks full attention first",
        "min_x63029",
        (
            PagedAllocator,
            "release",
            "in self.groups:",
            "in sorted(self.groups, key=lambda group: group.window is not None):",
        ),
    ),
    fault(
        "a single group has a junction",
        "min_x61057",
        (
            PagedAllocator,
            "find_hit",
            "length, longest = (sequence.num_tokens - 1) // self._block_size, 0",
            "length = longest = (sequence.num_tokens - 1) // self._block_size",
        ),
    ),
    fault(
        "who gave up gets the results of the step",
        "x65024",
        (SessionDriver, "_boundary", "self._tell_aborts(now_ps)", "pass"),
    ),
]

ASYNC = [
    fault(
        "one batch in flight",
        "async_micro",
        (Stepper, "__init__", "2 if config.async_scheduling else 1", "1"),
    ),
    fault(
        "three batches in flight",
        "async_micro",
        (Stepper, "__init__", "2 if config.async_scheduling else 1", "3"),
    ),
    fault(
        "call without effect counted as a step",
        "async_edges_priority",
        (
            Stepper,
            "plan",
            "if not step.items and not step.preempted:",
            "if not step.items and not step.preempted and not self._in_flight:",
        ),
    ),
    fault(
        "preempting call that hands out nothing is no batch",
        "async_edges_priority",
        (Stepper, "plan", "if not step.items and not step.preempted:", "if not step.items:"),
    ),
    fault(
        "decode with an unknown token costed as prefill",
        "async_micro",
        (
            StepsInFlight,
            "_served",
            "decodes = samples and",
            "decodes = not sequence.num_output_placeholders and samples and",
        ),
    ),
    fault(
        "request with its last token in flight scheduled once more",
        "async_edges_priority",
        (
            MixedRunningFirst,
            "_wanted",
            "if sequence.num_output_placeholders and (",
            "if False and (",
        ),
    ),
    fault(
        "clamp at max_model_len without the -1",
        "async_toolong",
        (MixedRunningFirst, "_wanted", "room -= 1", "pass"),
    ),
    fault(
        "n = 0 ends the walk",
        "async_toolong",
        (
            MixedRunningFirst,
            "_serve_running",
            "if tokens <= 0 or ",
            "if tokens <= 0 and sequence.num_tokens + sequence.num_output_placeholders "
            "< sequence.prompt_tokens + sequence.max_tokens:\n"
            "            break\n        if tokens <= 0 or ",
        ),
    ),
    fault(
        "blocks of unknown tokens marked at schedule time",
        "async_edges_priority",
        (PagedAllocator, "grow", "min(tokens, sequence.num_tokens)", "tokens"),
        (Sequence, "block_key", "(block + 1) * block_size <= self.num_tokens", "True"),
    ),
    fault(
        "blocks of generated tokens never marked when results come",
        "async_edges_priority",
        (
            Stepper,
            "_apply_item",
            "self.state.allocator.set_keys(sequence, min(computed, sequence.num_tokens - 1))",
            "pass",
        ),
    ),
    fault(
        "marking skipped for the step that finishes",
        "async_edges_priority",
        (
            Stepper,
            "_apply_item",
            "self.state.allocator.set_keys(sequence, min(computed, sequence.num_tokens - 1))",
            "done or self.state.allocator.set_keys(sequence, computed)",
        ),
    ),
    fault(
        "late token dropped",
        "async_edges_priority",
        (
            Stepper,
            "_apply_item",
            "if not item.samples:",
            "if not item.samples or not timely:",
        ),
    ),
    fault(
        "late token does not finish its request",
        "async_edges_priority",
        (
            Stepper,
            "_apply_item",
            "late.append(sequence.index)",
            "late.append(sequence.index); return",
        ),
    ),
    fault(
        "stop token known ahead",
        "async_edges_priority",
        (
            Requests,
            "__init__",
            "self.max_tokens = _ints(max_tokens)",
            "self.max_tokens = _ints(trace.output_tokens)",
        ),
    ),
    fault(
        "window: freed by scheduled tokens",
        "async_hybrid_mixed_tight",
        (
            GroupTables,
            "drop",
            "sequence.num_computed_tokens - sequence.in_flight",
            "sequence.num_computed_tokens",
        ),
    ),
    fault(
        "window: cap for one batch",
        "async_hybrid_mixed_tight",
        (PagedAllocator, "__init__", "(2 if config.async_scheduling else 1)", "1"),
    ),
]

FAULTS = sorted([*CACHE, *SCHEDULING, *WINDOWS, *GROUPS, *ASYNC], key=lambda row: row.scenario)


@pytest.fixture(scope="module")
def unchanged(recorded: Recorded) -> Callable[[str], Verdict]:
    """Verdict on a scenario without any change, computed once."""
    return cache(lambda scenario: replay(*recorded(scenario), step=True))


@pytest.mark.parametrize("row", FAULTS, ids=lambda row: row.mistake)
def test_a_changed_rule_shows(
    row: Fault,
    recorded: Recorded,
    unchanged: Callable[[str], Verdict],
    change_source: ChangeSource,
) -> None:
    assert unchanged(row.scenario).difference is None
    for edit in row.edits:
        change_source(*edit)
    assert replay(*recorded(row.scenario), step=True).difference is not None
