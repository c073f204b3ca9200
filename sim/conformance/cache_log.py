"""Recorded prefix-cache operations of SGLang: reading a log and its options.

Format: ``docs/conformance.md``. A log is a file of JSON lines, compressed or not: a header with
page size, pool and eviction policy, one record for each operation, and a summary. Each request is
started, prefilled and finished, in this order. A request without room is only started.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kvsim.policies.eviction import make_order
from kvsim.policies.options import Allocator, Eviction
from kvsim.policies.scheduler_config import SchedulerConfig
from kvsim.traces.common.names import unknown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

OPTIONS: Final = ("page_size", "pool_tokens", "policy")

TOTALS: Final = ("ops", "hit_tokens", "prompt_tokens", "evicted_tokens", "failed")
"""Fields of the summary; a request without room counts in the last and in ``ops`` only."""

_KEYS: Final = {
    "start": ("hit", "need", "evicted"),
    "prefilled": ("duplicate",),
    "finish": ("duplicate",),
}
_SIZES: Final = ("free", "evictable", "protected")
_BEFORE: Final = {"start": None, "prefilled": "start", "finish": "prefilled"}


@dataclass(frozen=True, slots=True)
class CacheLog:
    """One recorded run; ``operations`` in the order in which they were done."""

    path: Path
    header: dict[str, Any]
    operations: list[dict[str, Any]]
    summary: dict[str, Any]

    @property
    def options(self) -> dict[str, Any]:
        """Page size, pool and policy as given in the header."""
        return {name: self.header[name] for name in OPTIONS if name in self.header}


def is_cache_log(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the header has the version of SGLang."""
    return bool(records) and "sglang" in records[0]


def cache_log(path: Path, records: list[dict[str, Any]]) -> CacheLog:
    """Build a cache log from the lines of a file; raise ValueError if they are not one."""
    if records[0].get("type") != "header" or records[-1].get("type") != "summary":
        msg = f"{path}: a recorded cache log starts with a header and ends with a summary"
        raise ValueError(msg)
    absent = [name for name in OPTIONS if name not in records[0]]
    absent += [name for name in TOTALS if name not in records[-1]]
    if absent:
        msg = f"{path}: {', '.join(absent)} missing in header or summary"
        raise ValueError(msg)
    done: dict[str, str] = {}
    for number, record in enumerate(records[1:-1], 2):
        _check_operation(f"{path}: line {number}", record, done)
    return CacheLog(path, records[0], records[1:-1], records[-1])


def _check_operation(place: str, record: Mapping[str, Any], done: dict[str, str]) -> None:
    """Check one line; ``done`` holds the last operation of each request."""
    operation, name = record.get("op"), record.get("id")
    if operation not in _KEYS or not isinstance(name, str):
        msg = f"{place}: op is {operation!r} of id {name!r}; allowed: {', '.join(_KEYS)}"
        raise ValueError(msg)
    missing = [key for key in (*_KEYS[operation], *_SIZES) if key not in record]
    if missing:
        msg = f"{place} ({operation}): {', '.join(missing)} missing"
        raise ValueError(msg)
    if done.get(name) != _BEFORE[operation]:
        msg = f"{place}: {operation} of {name} comes after {done.get(name, 'nothing')}"
        raise ValueError(msg)
    done[name] = "no room" if record.get("failed") else operation


def cache_config(given: Mapping[str, Any]) -> SchedulerConfig:
    """Return the engine options of the radix cache that a log's options describe.

    Raises
    ------
    ValueError
        If an option is unknown, or its value is not allowed.
    """
    for name, value in given.items():
        if name not in OPTIONS:
            raise ValueError(unknown("option", name, OPTIONS))
        if name != "policy" and (type(value) is not int or value < 1):
            msg = f"option {name} is {value!r}; allowed: a whole number from 1"
            raise ValueError(msg)
    pool_tokens, page_size, policy = (
        given[name] for name in ("pool_tokens", "page_size", "policy")
    )
    if pool_tokens % page_size:
        msg = f"pool_tokens is {pool_tokens}; allowed are multiples of page_size {page_size}"
        raise ValueError(msg)
    make_order(str(policy))
    return SchedulerConfig(
        allocator=Allocator(prefix="radix"),
        eviction=Eviction(policy=str(policy)),
        block_size=page_size,
        num_gpu_blocks=pool_tokens // page_size,
        max_model_len=sys.maxsize,
    )
