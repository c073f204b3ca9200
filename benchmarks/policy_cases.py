"""A row for each policy: eviction order, batching, queue order, victim, preemption mode.

Loads are too much for their pools, so that policies have work to do. What is leapt gets more
requests than what is stepped through, as a row may take seconds only; the baseline of each row runs
the same requests on the same engine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvsim.policies.batching import BATCHING
from kvsim.policies.eviction import (
    AT_ADMISSIONS,
    EVICTION,
    EVICTION_KEYS,
    SEGMENT_SAFE,
    needs_names,
)
from kvsim.policies.preemption import VICTIMS
from kvsim.policies.queue_order import QUEUE_ORDERS
from kvsim.sim.cost.host_link import ASSUMED_ALPHA_PS, HostLink

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.cases import Case, Options

LEAPT, LEAPT_BY_BLOCK, STEPPED = 3_000, 1_000, 300
"""Requests of a row."""
LINK = HostLink(ASSUMED_ALPHA_PS, 25 * 10**9, block_bytes=2 * 2**20, copies_per_block=64)


def policy_cases(chat: Case, tight: Case) -> list[Case]:
    """All of them: ``chat`` hits and evicts, ``tight`` preempts."""
    return [
        *_evictions(chat),
        *_evictions_over_a_tree(chat),
        *_batchings(tight),
        *_queue_orders(chat),
        *_preemptions(tight),
    ]


def _evictions(chat: Case) -> list[Case]:
    rows = []
    for name in EVICTION.builtins:
        num = LEAPT if name in SEGMENT_SAFE else STEPPED
        if name in AT_ADMISSIONS - SEGMENT_SAFE.keys():
            num = LEAPT_BY_BLOCK
        goal = "12,000 req/s" if name in SEGMENT_SAFE else "5,000 req/s"
        rows.append(
            _row(
                chat,
                f"evict-{name}",
                num,
                {"eviction.policy": name},
                {"eviction.policy": "lru"},
                goal,
            )
        )
    return rows


def _evictions_over_a_tree(chat: Case) -> list[Case]:
    tree: Options = {
        "allocator.prefix": "radix",
        "block_size": 1,
        "num_gpu_blocks": 16 * int(chat.options["num_gpu_blocks"]),
    }
    chat = replace(chat, options=chat.options | tree)
    return [
        _row(
            chat,
            f"evict-{name}-radix",
            LEAPT if name in EVICTION_KEYS else STEPPED,
            {"eviction.policy": name},
            {"eviction.policy": "lru"},
            "5,000 req/s",
        )
        for name in EVICTION.builtins
        if not needs_names(name)
    ]


def _batchings(tight: Case) -> list[Case]:
    leapt = {"mixed-running-first", "iteration-level", "no-evict"}
    baseline = {"batching.policy": "mixed-running-first"}
    return [
        _row(
            tight,
            f"batch-{name}",
            LEAPT if name in leapt else STEPPED,
            {"batching.policy": name},
            baseline,
        )
        for name in BATCHING.builtins
    ]


def _queue_orders(chat: Case) -> list[Case]:
    rows = []
    for name in QUEUE_ORDERS.builtins:
        options = {"queue.policy": name} | (
            {"predictor.kind": "max_tokens"} if name == "sjf" else {}
        )
        num = LEAPT if name == "fcfs" else STEPPED
        rows.append(_row(chat, f"queue-{name}", num, options, {"queue.policy": "fcfs"}))
    return rows


def _preemptions(tight: Case) -> list[Case]:
    leapt = {"by-queue", "last"}
    rows = []
    for name in VICTIMS.builtins:
        options = {"preemption.victim": name} | (
            {"predictor.kind": "oracle"} if name == "most-remaining" else {}
        )
        num = LEAPT if name in leapt else STEPPED
        rows.append(_row(tight, f"victim-{name}", num, options, {"preemption.victim": "by-queue"}))
    host = replace(tight, options=tight.options | {"num_host_blocks": 6_000}, link=LINK)
    for mode in ("swap", "auto"):
        options = {"preemption.mode": mode}
        rows.append(
            _row(host, f"preempt-{mode}", STEPPED, options, {"preemption.mode": "recompute"})
        )
    return rows


def _row(
    load: Case,
    name: str,
    num_requests: int,
    options: Mapping[str, str],
    baseline: Mapping[str, str],
    goal: str = "",
) -> Case:
    against = next(iter(baseline.values()))
    return replace(
        load,
        name=name,
        about=f"{load.name}, first {num_requests:,} requests, against {against}",
        num_requests=num_requests,
        options={**load.options, **options},
        step_on=0,
        goal=goal,
        baseline={**baseline},
    )
