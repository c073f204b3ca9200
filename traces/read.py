"""Read a trace file of any known format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kvsim.traces.readers import reader_for
from kvsim.traces.readers.intake import Intake
from kvsim.traces.source import Source
from kvsim.traces.trace import TraceError

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.traces.trace import Trace


def read_trace(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002
    sort: bool = False,
    on_bad_row: Literal["stop", "skip"] = "stop",
    limit: int | None = None,
) -> Trace:
    """Read a trace; gzip and zstd are unpacked whatever the name says.

    Parameters
    ----------
    path
        The file. Nothing but the file is read.
    format
        Name of the format; None = told by content.
    sort
        Sort by time, equal times in file order. Without it times that go back are refused.
    on_bad_row
        ``"stop"`` at the first row that is wrong or contradicts itself, or ``"skip"`` such rows
        and count them in the receipt.
    limit
        Take this many requests at most, the first ones of the file.

    Returns
    -------
    Trace
        With ``receipt`` and ``sha256`` (of all unpacked bytes, also past ``limit``).

    Raises
    ------
    TraceError
        One sentence for the user.
    """
    if on_bad_row not in ("stop", "skip"):
        raise TraceError(f"--on-bad-row is {on_bad_row!r}; choices: stop, skip")
    if limit is not None and limit < 1:
        raise TraceError(f"--limit is {limit}; allowed are whole numbers from 1")
    source = Source(path)
    reader = reader_for(source, format)
    intake = Intake(source, skip_bad_rows=on_bad_row == "skip", sort=sort, limit=limit)
    intake.receipt.format = reader.name
    try:
        return reader.read(source, intake)
    except UnicodeDecodeError as error:
        seen = error.object[error.start : error.start + 1].hex()
        raise TraceError(
            f"{source.path}: the text is not UTF-8 (byte 0x{seen} cannot be read); convert it first"
        ) from error
