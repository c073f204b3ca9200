"""Recorded schedules: reading a log, and writing ours in the same words.

Formats: ``docs/conformance.md``. A log is a gzip'd JSON-lines file: a header with the engine's
options, one record a step, one a request, a summary.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig
from kvsim.sim.cost import LinearCost

if TYPE_CHECKING:
    from kvsim.sim.stepper import Flight, Stepper

PS_PER_NS = 1000
_PLAIN = (
    "block_size",
    "num_gpu_blocks",
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_model_len",
    "enable_prefix_caching",
    "enable_chunked_prefill",
    "long_prefill_token_threshold",
    "policy",
    "watermark",
    "scheduler_reserve_full_isl",
    "prefix_cache_retention_interval",
)


@dataclass(slots=True)
class GoldenLog:
    """One recorded run: its options, and the records of steps, requests and summary."""

    path: Path
    header: dict[str, Any]
    steps: list[dict[str, Any]]
    requests: list[dict[str, Any]]
    summary: dict[str, Any]


def read_log(path: Path) -> GoldenLog:
    """Read a recorded schedule; one sentence (ValueError) where it is none."""
    raw = path.read_bytes()
    try:
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
        records = [json.loads(line) for line in text.splitlines() if line.strip()]
        kinds = [record["type"] for record in records]
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        msg = f"{path}: not a recorded schedule (JSON lines with a 'type' each): {error}"
        raise ValueError(msg) from None
    if not kinds or kinds[0] != "header" or kinds.count("summary") != 1:
        msg = f"{path}: a recorded schedule starts with a header and ends with one summary"
        raise ValueError(msg)
    of = {kind: [r for r in records if r["type"] == kind] for kind in set(kinds)}
    steps = [record for record in records if record["type"] in ("step", "rejected")]
    return GoldenLog(path, records[0], steps, of.get("request", []), of["summary"][0])


def find_trace(log: GoldenLog) -> Path:
    """Find the trace a header names: beside the log, in traces/ there, in ../vllm/traces."""
    name = f"{log.header.get('trace_name') or log.header.get('trace')}.json.gz"
    folder = log.path.parent
    places = (folder / name, folder / "traces" / name, folder.parent / "vllm" / "traces" / name)
    for place in places:
        if place.exists():
            return place
    tried = ", ".join(str(place) for place in places)
    msg = f"{log.path}: its trace {name} is in none of {tried}; name it with --trace"
    raise ValueError(msg)


def engine_options(options: dict[str, Any]) -> tuple[SchedulerConfig, LinearCost]:
    """Turn a header's options into scheduler rules and a step cost (ns become ps)."""
    layout, window = options.get("layout", "full"), options.get("sliding_window")
    groups = {
        "full": (KVGroup(),),
        "swa": (KVGroup(window),),
        "hybrid": (KVGroup(), KVGroup(window)),
    }
    if layout not in groups:
        msg = f"layout {layout!r} is unknown; choose one of {', '.join(groups)}"
        raise ValueError(msg)
    config = SchedulerConfig(
        **{name: options[name] for name in _PLAIN if name in options},
        async_scheduling=bool(options.get("async_scheduling", False)),
        kv_groups=groups[layout],
    )
    cost = options["cost"]
    return config, LinearCost(
        cost["base"] * PS_PER_NS,
        cost["per_prefill_token"] * PS_PER_NS,
        cost["per_decode_seq"] * PS_PER_NS,
        cost["per_context_token"] * PS_PER_NS,
    )


class ScheduleWriter:
    """A stepper's listener that writes the log's step records."""

    def __init__(self, *, log_blocks: bool) -> None:
        self.steps: list[dict[str, Any]] = []
        self._pending: list[dict[str, Any]] = []
        self._log_blocks = log_blocks
        self._tables: dict[int, list[int]] = {}
        self._num_evicted = 0
        self._num_evicted_ids = 0

    def called(self, stepper: Stepper, flight: Flight) -> None:
        """Write what the call handed out."""
        step, pool = flight.step, stepper.state.allocator.pool
        record: dict[str, Any] = {
            "ts": flight.call_ps // PS_PER_NS,
            "t0": flight.start_ps // PS_PER_NS,
            "t1": flight.end_ps // PS_PER_NS,
            "sched": [
                [item.sequence.name, item.num_tokens, item.past, "D" if item.decodes else "P"]
                for item in flight.items
            ],
            "admitted": [
                [a.sequence.name, a.hit_tokens, "resumed" if a.resumed else "new"]
                for a in step.admitted
            ],
            "preempted": [[p.sequence.name, p.lost_tokens] for p in step.preempted],
            "free_after_schedule": pool.num_free,
            "evicted": pool.num_evicted - self._num_evicted,
        }
        self._num_evicted = pool.num_evicted
        if self._log_blocks:
            record["alloc"] = self._allocations(stepper, flight)
            record["evicted_ids"] = pool.evicted_ids[self._num_evicted_ids :]
            self._num_evicted_ids = len(pool.evicted_ids)
        self._pending.append(record)
        self.steps.append(record)

    def _allocations(self, stepper: Stepper, flight: Flight) -> dict[str, Any]:
        for preemption in flight.step.preempted:
            self._tables.pop(preemption.sequence.index, None)
        new: dict[str, Any] = {}
        for item in flight.items:
            index = item.sequence.index
            lengths = self._tables.setdefault(index, [0] * len(stepper.state.allocator.groups))
            added = []
            for number, group in enumerate(stepper.state.allocator.groups):
                table = group.tables[index]
                added.append([block.id for block in table[lengths[number] :]])
                lengths[number] = len(table)
            if any(added):
                new[item.sequence.name] = added[0] if len(added) == 1 else added
        return new

    def applied(
        self,
        stepper: Stepper,
        flight: Flight,  # noqa: ARG002
        finished: list[int],
        late: list[int],
        dropped: list[int],
    ) -> None:
        """Write what the step's results changed."""
        record = self._pending.pop(0)
        state = stepper.state

        def names(indices: list[int]) -> list[str]:
            return [stepper.name_of(index) for index in indices]

        for index in finished:
            self._tables.pop(index, None)
        record |= {
            "finished": names(finished),
            "late": names(late),
            "dropped": names(dropped),
            "free_after_update": state.allocator.pool.num_free,
            "running": len(state.running),
            "waiting": sum(s.arrival_ps <= stepper.last_call_ps for s in state.waiting),
            "cached_blocks": len(state.allocator.pool.index),
        }
