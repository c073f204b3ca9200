"""What a trace made in Python must be: columns of one length, each of what it must hold.

Readers give no others.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from kvsim.traces.arguments import check_kind, wrong
from kvsim.traces.counted import counted
from kvsim.traces.receipt import Receipt
from kvsim.traces.trace import MorePredecessors, PrefixIds, Trace, TraceError

_NEEDED: Final = ("arrival_ns", "prompt_tokens", "output_tokens")
_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    **dict.fromkeys(_NEEDED, np.dtype(np.int64)),
    "max_tokens": np.dtype(np.int64),
    "ends_by": np.dtype(np.uint8),
    "priority": np.dtype(np.int64),
    "turn": np.dtype(np.int64),
    "after_request": np.dtype(np.int64),
    "delay_ns": np.dtype(np.int64),
    "num_samples": np.dtype(np.int64),
    "beam_width": np.dtype(np.int64),
    "has_time": np.dtype(np.bool_),
    "timeout_ns": np.dtype(np.int64),
}
_FROM_1: Final = ("prompt_tokens", "num_samples", "beam_width")
_MOST: Final = 2**31 - 1
_TEXTS: Final = ("ids", "user", "session")


def check_trace(value: object, what: str = "a Trace; kvsim.traces.read_trace reads one") -> None:
    """Refuse what is no trace, or one that no reader would give; O(n).

    Raises
    ------
    ValueError
        It is no trace, but ``what``.
    TraceError
        A column is no array of its kind, has another length or impossible numbers, or goes back
        in time.
    """
    check_kind("trace", value, Trace, what)
    assert isinstance(value, Trace), "checked before"
    check_kind("name of the trace", value.name, str, "text")
    check_kind("sha256 of the trace", value.sha256, str, "text")
    count = np.size(value.arrival_ns)
    for name, dtype in _DTYPES.items():
        if name in _NEEDED or getattr(value, name) is not None:
            _check_array(value, name, dtype, count)
    for name in _TEXTS:
        texts = getattr(value, name)
        if texts is not None and not _are_texts(texts, count):
            raise _wrong(value, name, f"a list of {counted(count, 'text')}")
    for name, kind in (
        ("prefix", PrefixIds),
        ("also_after", MorePredecessors),
        ("receipt", Receipt),
    ):
        if getattr(value, name) is not None and not isinstance(getattr(value, name), kind):
            raise _wrong(value, name, f"{kind.__name__}, or None")
    for lists in (value.prefix, value.also_after):
        if lists is not None and np.shape(lists.offsets) != (count + 1,):
            raise TraceError(
                f"{value.name}: {type(lists).__name__} has {np.size(lists.offsets)} offsets; there "
                f"must be {count + 1}, one more than requests"
            )
    for name in _FROM_1:
        numbers = getattr(value, name)
        if numbers is not None and ((numbers < 1) | (numbers > _MOST)).any():
            raise _wrong(value, name, f"whole numbers from 1 to {_MOST:,}")
    if (np.diff(value.arrival_ns) < 0).any():
        raise TraceError(f"{value.name}: arrival_ns goes back; requests are in order of arrival")


def _check_array(trace: Trace, name: str, dtype: np.dtype[Any], count: int) -> None:
    values: object = getattr(trace, name)
    if not isinstance(values, np.ndarray) or values.dtype != dtype or values.shape != (count,):
        raise _wrong(trace, name, f"a numpy array of {count:,} {dtype.name}")


def _are_texts(values: object, count: int) -> bool:
    if isinstance(values, str) or not hasattr(values, "__len__") or not hasattr(values, "__iter__"):
        return False
    return len(values) == count and all(isinstance(text, str) for text in values)


def _wrong(trace: Trace, name: str, what: str) -> TraceError:
    return TraceError(f"{trace.name}: {wrong(name, getattr(trace, name), what)}")
