"""What a trace made in Python must be: columns of one length, each of what it must hold.

Readers give no others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.common.arguments import MOST, check_kind, check_whole, wrong
from kvsim.traces.common.text import counted
from kvsim.traces.trace.receipt import Receipt
from kvsim.traces.trace.trace import LENGTH, STOP, MorePredecessors, PrefixIds, Trace, TraceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INT64: Final = np.dtype(np.int64)
_BOOL: Final = np.dtype(np.bool_)
_NEEDED: Final = ("arrival_ns", "prompt_tokens", "output_tokens")
_DTYPES: Final[dict[str, np.dtype[Any]]] = {
    **dict.fromkeys(_NEEDED, _INT64),
    "max_tokens": _INT64,
    "ends_by": np.dtype(np.uint8),
    "priority": _INT64,
    "turn": _INT64,
    "after_request": _INT64,
    "delay_ns": _INT64,
    "num_samples": _INT64,
    "beam_width": _INT64,
    "has_time": _BOOL,
    "timeout_ns": _INT64,
}
_LATEST: Final = 2**63 - 1
_RANGES: Final[dict[str, tuple[int, int]]] = {
    "arrival_ns": (0, _LATEST),
    "prompt_tokens": (1, MOST),
    "output_tokens": (0, MOST),
    "max_tokens": (-1, MOST),
    "ends_by": (LENGTH, STOP),
    "delay_ns": (-1, _LATEST),
    "num_samples": (1, MOST),
    "beam_width": (1, MOST),
    "timeout_ns": (-1, _LATEST),
}
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
    for name, (least, most) in _RANGES.items():
        numbers = getattr(value, name)
        if numbers is not None and ((numbers < least) | (numbers > most)).any():
            raise _wrong(value, name, f"whole numbers from {least} to {most:,}")
    if value.max_tokens is not None and not value.max_tokens.all():
        raise _wrong(value, "max_tokens", "-1 where a request does not say it, or from 1")
    _check_predecessors(value, count)
    if value.prefix is not None:
        _check_prefix(value, value.prefix, count)
    if (np.diff(value.arrival_ns) < 0).any():
        raise TraceError(f"{value.name}: arrival_ns goes back; requests are in order of arrival")


def _check_predecessors(trace: Trace, count: int) -> None:
    """Raise TraceError if a request waits for its own output, a later one, or a missing one."""
    if trace.after_request is not None:
        _check_earlier(trace, "after_request", trace.after_request, np.arange(count), -1)
    also = trace.also_after
    if also is not None:
        name = "requests of also_after"
        owners = _check_lists(trace, "also_after", also.offsets, name, also.requests, count)
        _check_earlier(trace, name, also.requests, owners, 0)


def _check_earlier(
    trace: Trace, name: str, before: NDArray[np.int64], owners: NDArray[np.int64], least: int
) -> None:
    bad = np.flatnonzero((before < least) | (before >= owners))
    if len(bad):
        owner, found = int(owners[bad[0]]), int(before[bad[0]])
        raise TraceError(
            f"{trace.name}: {name} of request {owner} is {found}; it must be the index of an "
            f"earlier request{', or -1' if least < 0 else ''}"
        )


def _check_prefix(trace: Trace, prefix: PrefixIds, count: int) -> None:
    check_whole("block_size of prefix", prefix.block_size, 1, most=MOST)
    _check_lists(trace, "prefix", prefix.offsets, "ids of prefix", prefix.ids, count)
    anonymous = prefix.anonymous_answer
    if anonymous is not None:
        _check_values(trace, "anonymous_answer of prefix", anonymous, _BOOL, count)


def _check_lists(
    trace: Trace, owner: str, offsets: object, name: str, values: object, count: int
) -> NDArray[np.int64]:
    """Refuse offsets that do not cut ``values`` into a part a request; the owner of each value."""
    what = f"offsets of {owner}"
    _check_values(trace, what, offsets, _INT64, count + 1)
    assert isinstance(offsets, np.ndarray), "checked before"
    if offsets[0] != 0 or (np.diff(offsets) < 0).any():
        raise TraceError(f"{trace.name}: {wrong(what, offsets, 'from 0 up, and never fall')}")
    _check_values(trace, name, values, _INT64, int(offsets[-1]))
    return np.repeat(np.arange(count), np.diff(offsets))


def _check_array(trace: Trace, name: str, dtype: np.dtype[Any], count: int) -> None:
    _check_values(trace, name, getattr(trace, name), dtype, count)


def _check_values(
    trace: Trace, name: str, values: object, dtype: np.dtype[Any], count: int
) -> None:
    if not isinstance(values, np.ndarray) or values.dtype != dtype or values.shape != (count,):
        what = f"a numpy array of {count:,} {dtype.name}"
        raise TraceError(f"{trace.name}: {wrong(name, values, what)}")


def _are_texts(values: object, count: int) -> bool:
    """Whether they are a list or tuple of them: of an array, none could be asked if it is empty."""
    if not isinstance(values, list | tuple):
        return False
    return len(values) == count and all(isinstance(text, str) for text in values)


def _wrong(trace: Trace, name: str, what: str) -> TraceError:
    return TraceError(f"{trace.name}: {wrong(name, getattr(trace, name), what)}")
