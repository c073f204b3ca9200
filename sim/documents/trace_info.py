"""How kvsim reads a trace file, and the statistics of the trace."""

from __future__ import annotations

from kvsim.traces.common.part import Document, Part, key
from kvsim.traces.trace.statistics import Statistics


class ReceiptFigures(Part):
    """How kvsim read the file."""

    path: str = key()
    format: str = key()
    time_unit: str = key()
    epoch: str | None = key()
    id_block_size: int | None = key("1", "tokens of an id")
    id_scope: str | None = key()
    ids_cover_output: bool = key()
    ids_partial: bool | None = key(
        "", "whether a request's last id may stand for a block that is not full"
    )
    time_grid_ns: int | None = key("ns", "resolution of the times")
    num_distinct_times: int = key("1")
    rows_read: int = key("1")
    skipped: dict[str, list[int]] = key("1", "number of rows and first line, by reason")
    clipped: dict[str, list[int]] = key("1", "number of rows and first line, by reason")
    failed: dict[str, list[int]] = key("1", "number of rows and first line, by reason")
    unusable: dict[str, list[int]] = key("1", "number of rows and first line, by reason")
    num_timed: int | None = key("1", "requests with a recorded time (`null`: all)")
    early_turns: int = key("1")
    has_times: bool = key()
    has_outputs: bool = key()
    notes: list[str] = key()
    place: str = key("", "unit of the line numbers")


class TraceInfo(Document):
    """Contents of a trace."""

    title = "Trace"
    schema = "kvsim.trace-info/1"
    origin = "`kvsim trace info FILE --json` (docs/traces.md)"

    name: str = key()
    sha256: str = key("", "hash of the file's bytes")
    statistics: Statistics = key()
    receipt: ReceiptFigures | None = key("", "how kvsim read the file")
