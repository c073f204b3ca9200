"""Read a trace file of any known format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from kvsim.traces.common.arguments import check_flags, check_path, check_whole, is_whole
from kvsim.traces.formats import reader_for
from kvsim.traces.reading.drawn import ArrivalRule, OutputRule
from kvsim.traces.reading.intake import Intake
from kvsim.traces.reading.source import Source
from kvsim.traces.reading.wishes import Wishes
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.traces.reading.base import Reader
    from kvsim.traces.trace.trace import Trace


def read_trace(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002
    sort: bool = False,
    on_bad_row: Literal["stop", "skip"] = "stop",
    limit: int | None = None,
    keep_unusable: bool = False,
    need_times: bool = True,
    arrivals: ArrivalRule | str | None = None,
    session_starts: ArrivalRule | str | None = None,
    output_tokens: OutputRule | str | None = None,
    seed: int = 0,
) -> Trace:
    """Read a trace; gzip and zstd are unpacked whatever the name says.

    It has a ``receipt`` and the ``sha256`` of all unpacked bytes, also those past ``limit``.

    Parameters
    ----------
    path
        The file. Nothing but the file is read.
    format
        Name of the format; None = told by content.
    sort
        Sort by time, equal times in file order. Without it times that go back are refused.
    on_bad_row
        ``"stop"`` at the first row that is wrong, or ``"skip"`` such rows and count them.
    limit
        Take this many requests at most, the first ones of the file.
    keep_unusable, need_times
        What the file may lack: see :class:`~kvsim.traces.reading.wishes.Wishes`.
    arrivals, session_starts
        Laws of times (``"poisson(rate=3)"``, see ``kvsim.traces.reading.drawn``): of all
        requests instead of the recorded ones, or of sessions that all begin at their own 0.
    output_tokens
        Output lengths for files without them (``"256"``, ``"uniform(1,512)"``).
    seed
        Of all that is drawn.

    Raises
    ------
    TraceError
        One sentence for the user.
    """
    _check_rows(on_bad_row, limit)
    check_path("path", path)
    check_flags(sort=sort, keep_unusable=keep_unusable, need_times=need_times)
    check_whole("seed", seed, 0)
    source = Source(path)
    reader = reader_for(source, format)
    wishes = Wishes(
        *(on_bad_row == "skip", sort, limit, keep_unusable, need_times),
        arrivals=_arrivals(arrivals),
        session_starts=_starts(session_starts),
        outputs=_outputs(output_tokens),
        rngs=np.random.default_rng(seed).spawn(4),
    )
    return _read(reader, source, wishes)


def _check_rows(on_bad_row: str, limit: int | None) -> None:
    """Refuse what says nothing about which rows to take."""
    if on_bad_row not in ("stop", "skip"):
        raise TraceError(f"--on-bad-row is {on_bad_row!r}; choices: stop, skip")
    if limit is not None and not is_whole(limit, 1):
        raise TraceError(f"--limit is {limit!r}; allowed are whole numbers from 1")


def _read(reader: Reader, source: Source, wishes: Wishes) -> Trace:
    """Read with the reader of the format."""
    intake = Intake(source, wishes)
    intake.receipt.format = reader.name
    try:
        return reader.read(source, intake)
    except UnicodeDecodeError as error:
        seen = error.object[error.start : error.start + 1].hex()
        raise TraceError(
            f"{source.path}: the text is not UTF-8 (byte 0x{seen} cannot be read); convert it first"
        ) from error


def _arrivals(rule: ArrivalRule | str | None, option: str = "--arrivals") -> ArrivalRule | None:
    return (
        rule if rule is None or isinstance(rule, ArrivalRule) else ArrivalRule.parse(rule, option)
    )


def _starts(rule: ArrivalRule | str | None) -> ArrivalRule | None:
    rule = _arrivals(rule, "--session-starts")
    if rule is not None and rule.rate_per_s is None:
        raise TraceError(
            f"--session-starts {rule} needs a rate in sessions per second: say {rule.kind}(rate=R) "
            "or --session-rate R"
        )
    return rule


def _outputs(rule: OutputRule | str | None) -> OutputRule | None:
    return rule if rule is None or isinstance(rule, OutputRule) else OutputRule.parse(rule)
