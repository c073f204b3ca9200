"""Facts of a whole trace for the receipt: time grid, ties, ids, epoch, turns that are too early."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.common.text import counted
from kvsim.traces.reading.columns import parts
from kvsim.traces.trace.receipt import Receipt, duration
from kvsim.traces.trace.time_grid import num_distinct, time_grid_ns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from kvsim.traces.reading.wishes import Wishes
    from kvsim.traces.trace.trace import PrefixIds

_FASTEST_TOKEN_NS: Final = 1_000_000


def describe(
    receipt: Receipt,
    wishes: Wishes,
    time_unit: str,
    arrival_ns: NDArray[np.int64],
    prefix: PrefixIds | None,
    columns: Mapping[str, NDArray[Any]],
) -> None:
    """Fill in the facts that need all rows."""
    receipt.time_unit = time_unit
    timed = columns["has_time"] != 0 if "has_time" in columns else np.ones(1, dtype=np.bool_)
    if timed.all():
        describe_times(receipt, arrival_ns)
    else:
        receipt.num_timed = int(np.count_nonzero(timed))
        describe_times(receipt, arrival_ns[timed])
    if prefix is not None:
        receipt.id_block_size = prefix.block_size
        receipt.id_scope = prefix.scope
        receipt.ids_cover_output = prefix.covers_output
    if wishes.limit is not None and len(arrival_ns) == wishes.limit:
        receipt.notes.append(f"stopped after {counted(wishes.limit, 'request')} (--limit)")
    if "has_time" in columns and not columns["has_time"].all():
        count = int(np.count_nonzero(columns["has_time"] == 0))
        receipt.notes.append(
            f"{counted(count, 'turn has', 'turns have')} no arrival time: each arrives a delay "
            "after the previous output ends"
        )
    if "max_tokens" not in columns:
        receipt.notes.append(
            "the file has no max_tokens (output limits of clients): a simulation uses "
            "--assume-max-tokens"
        )


def describe_times(receipt: Receipt, arrival_ns: NDArray[np.int64]) -> None:
    """Count the distinct times and find their grid."""
    receipt.num_distinct_times = num_distinct(arrival_ns)
    receipt.time_grid_ns, jitter_ns = time_grid_ns(arrival_ns)
    if jitter_ns:
        receipt.notes.append(f"times differ from their grid by up to {duration(jitter_ns)}")


def epoch_text(first_ns: int, epoch: str) -> str | None:
    """Return the time of the first arrival by the clock of the file."""
    if epoch != "unix":
        return f"the first is at {duration(first_ns)} by the file's clock" if first_ns else None
    seconds, rest = divmod(first_ns, 10**9)
    try:
        moment = datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC)
    except (OverflowError, OSError, ValueError):
        return f"the first is at Unix time {seconds:,}.{rest:09d} s"
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"the first is at {moment:%Y-%m-%d %H:%M:%S}{fraction} UTC"


def count_early_turns(columns: Mapping[str, NDArray[Any]]) -> int:
    """Count turns that arrive before the previous output could have ended."""
    early = 0
    for part in parts(len(columns["after_request"])):
        parents, arrival_ns = columns["after_request"][part], columns["arrival_ns"][part]
        turns = parents >= 0
        if "has_time" in columns:
            turns &= columns["has_time"][part] != 0
        parents, arrival_ns = parents[turns], arrival_ns[turns]
        output_ns = columns["output_tokens"][parents] * _FASTEST_TOKEN_NS
        soonest = columns["arrival_ns"][parents] + output_ns
        if "end_ns" in columns:
            end_ns = columns["end_ns"][parents]
            soonest = np.where(end_ns >= 0, end_ns, soonest)
        early += int(np.count_nonzero(arrival_ns < soonest))
    return early
