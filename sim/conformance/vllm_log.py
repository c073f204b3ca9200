"""Recorded schedules of vLLM: reading a log and its options.

Format: ``docs/conformance.md``. A log is a file of JSON lines, compressed or not: a header with the
engine's options, one record for each step, one for each request, and a summary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kvsim.policies.options import Batching, Queue, Retention
from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig
from kvsim.sim.conformance.recordings import read_records
from kvsim.sim.cost.step_cost import LinearCost
from kvsim.traces.common.names import unknown
from kvsim.traces.common.quantities import PS_PER_NS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DEFAULTS: Final[dict[str, Any]] = {
    "block_size": 16,
    "num_gpu_blocks": 1024,
    "max_num_batched_tokens": 2048,
    "max_num_seqs": 64,
    "max_model_len": 4096,
    "enable_prefix_caching": True,
    "enable_chunked_prefill": True,
    "long_prefill_token_threshold": 0,
    "policy": "fcfs",
    "watermark": 0.0,
    "scheduler_reserve_full_isl": True,
    "layout": "full",
    "sliding_window": None,
    "groups": None,
    "prefix_cache_retention_interval": None,
    "cost": {
        "base": 4_000_000,
        "per_prefill_token": 30_000,
        "per_decode_seq": 50_000,
        "per_context_token": 20,
    },
    "async_scheduling": False,
    "log_blocks": False,
    "check_pool_fits": True,
}
"""Defaults of options that a header does not have; times of ``cost`` in ns."""

_LAYOUTS: Final = ("full", "swa", "hybrid")
_CHOICES: Final = {"policy": ("fcfs", "priority"), "layout": _LAYOUTS}
_FROM_ZERO: Final = {"long_prefill_token_threshold", "prefix_cache_retention_interval"}
_OPTIONAL: Final = {"sliding_window", "prefix_cache_retention_interval"}
_BATCHING: Final = ("long_prefill_token_threshold", "watermark", "scheduler_reserve_full_isl")
_SIZES: Final = (
    "block_size",
    "num_gpu_blocks",
    "max_num_batched_tokens",
    "max_num_seqs",
    "max_model_len",
    "enable_prefix_caching",
    "enable_chunked_prefill",
    "async_scheduling",
)
_STEP_KEYS: Final = ("i", "t0", "t1", "sched", "admitted", "preempted", "finished")


@dataclass(slots=True)
class GoldenLog:
    """One recorded run.

    ``records`` holds the steps and, between them, the lines of requests rejected while the engine
    was idle (``type`` ``step`` or ``rejected``), in the order of the log.
    """

    path: Path
    header: dict[str, Any]
    records: list[dict[str, Any]]
    requests: list[dict[str, Any]]
    summary: dict[str, Any]

    @property
    def options(self) -> dict[str, Any]:
        """The engine's options as given in the header."""
        options: dict[str, Any] = self.header["options"]
        return options


def read_log(path: Path) -> GoldenLog:
    """Read a recorded schedule; raise ValueError if the file is not one."""
    return schedule_log(path, read_records(path))


def schedule_log(path: Path, records: list[dict[str, Any]]) -> GoldenLog:
    """Build a recorded schedule from a file's lines; raise ValueError if they are not one."""
    header = records[0] if records else {}
    kinds = [record.get("type") for record in records]
    if kinds[:1] != ["header"] or kinds.count("header") != 1 or kinds[-1] != "summary":
        msg = f"{path}: a recorded schedule starts with a header and ends with a summary"
        raise ValueError(msg)
    known = ("header", "step", "rejected", "request", "summary")
    unknown = {str(kind) for kind in kinds if kind not in known}
    if unknown or kinds.count("summary") != 1:
        msg = f"{path}: line types {sorted(unknown) or 'summary, twice'} are unexpected"
        raise ValueError(msg)
    if header.get("log_format") != 1 or not isinstance(header.get("options"), dict):
        msg = f"{path}: the header must have log_format 1 and options; it has {sorted(header)}"
        raise ValueError(msg)
    for number, record in enumerate(records, 1):
        wanted = {"step": _STEP_KEYS, "rejected": ("t0", "ids"), "request": ("id", "status")}
        missing = [key for key in wanted.get(record["type"], ()) if key not in record]
        if missing:
            msg = f"{path}: line {number} ({record['type']}): {', '.join(missing)} missing"
            raise ValueError(msg)
    return GoldenLog(
        path,
        header,
        [record for record in records if record["type"] in ("step", "rejected")],
        [record for record in records if record["type"] == "request"],
        records[-1],
    )


def engine_options(given: Mapping[str, Any]) -> tuple[SchedulerConfig, LinearCost]:
    """Return scheduler rules and a step cost from a header's options (ns become ps).

    Raises
    ------
    ValueError
        If an option is unknown, or its value is not allowed.
    """
    for name, value in given.items():
        _check(name, value, DEFAULTS)
    options = {**DEFAULTS, **given}
    cost = DEFAULTS["cost"] | options["cost"]
    for name, value in cost.items():
        _check(name, value, DEFAULTS["cost"])
    groups = _kv_groups(options)
    _check_engine_starts(options, groups)
    config = SchedulerConfig(
        **{name: options[name] for name in _SIZES},
        batching=Batching(**{name: options[name] for name in _BATCHING}),
        queue=Queue(policy=options["policy"]),
        retention=Retention(
            prefix_cache_retention_interval=options["prefix_cache_retention_interval"]
        ),
        kv_groups=groups,
    )
    return config, LinearCost(
        cost["base"] * PS_PER_NS,
        cost["per_prefill_token"] * PS_PER_NS,
        cost["per_decode_seq"] * PS_PER_NS,
        cost["per_context_token"] * PS_PER_NS,
    )


def _kv_groups(options: Mapping[str, Any]) -> tuple[KVGroup, ...]:
    """Return the groups in the engine's order: those listed, or else those of the layout."""
    if options["groups"] is not None:
        return tuple(KVGroup(window) for window in options["groups"])
    window = options["sliding_window"]
    if options["layout"] != "full" and window is None:
        msg = f"layout {options['layout']!r} needs sliding_window"
        raise ValueError(msg)
    return {
        "full": (KVGroup(),),
        "swa": (KVGroup(window),),
        "hybrid": (KVGroup(), KVGroup(window)),
    }[options["layout"]]


def _check_engine_starts(options: Mapping[str, Any], groups: tuple[KVGroup, ...]) -> None:
    """Refuse options that contradict each other, as the engine does when it starts."""
    budget, model_len = options["max_num_batched_tokens"], options["max_model_len"]
    max_num_seqs, threshold = options["max_num_seqs"], options["long_prefill_token_threshold"]
    interval, block_size = options["prefix_cache_retention_interval"], options["block_size"]
    msg = None
    if not options["enable_chunked_prefill"] and budget < model_len:
        msg = "without chunked prefill max_num_batched_tokens must be >= max_model_len"
    elif budget < max_num_seqs:
        msg = f"max_num_batched_tokens (={budget}) must be at least max_num_seqs (={max_num_seqs})"
    elif threshold > model_len:
        msg = f"long_prefill_token_threshold (={threshold}) is above max_model_len (={model_len})"
    elif interval and all(group.sliding_window is None for group in groups):
        msg = f"prefix_cache_retention_interval (={interval}) needs a group with a window"
    elif interval and interval % block_size:
        msg = (
            f"prefix_cache_retention_interval (={interval}) must be a multiple of block_size "
            f"(={block_size})"
        )
    if msg is not None:
        raise ValueError(msg)


def _check(name: str, value: object, known: Mapping[str, Any]) -> None:
    """Refuse an unknown option, with its nearest name, and a value that is not allowed."""
    if name not in known:
        raise ValueError(unknown("option", name, known))
    default = known[name]
    allowed = "an object of integer ns" if isinstance(default, dict) else "true or false"
    fits = type(value) is type(default)
    if name == "groups":
        allowed = "null, or a list of windows in tokens (from 1) and null for full attention"
        fits = value is None or _is_list_of_windows(value)
    elif name in _OPTIONAL or (isinstance(default, int) and not isinstance(default, bool)):
        least = 0 if name in _FROM_ZERO or known is not DEFAULTS else 1
        allowed = f"a whole number from {least}"
        fits = type(value) is int and value >= least
        if name in _OPTIONAL:
            allowed += " or null"
            fits = fits or value is None
    elif name in _CHOICES:
        allowed = " or ".join(_CHOICES[name])
        fits = value in _CHOICES[name]
    elif isinstance(default, float):
        allowed = "a number from 0 up to, but not, 1"
        fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1
    if not fits:
        msg = f"option {name} is {value!r}; allowed: {allowed}"
        raise ValueError(msg)


def _is_list_of_windows(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(item is None or (type(item) is int and item >= 1) for item in value)
