"""How kvsim understands a trace file, and its statistics."""

from __future__ import annotations

from kvsim.traces.common.part import Document, Part, key
from kvsim.traces.trace.statistics import Statistics


class ReceiptFigures(Part):
    """How the file was understood."""

    path: str = key()
    format: str = key()
    time_unit: str = key()
    epoch: str | None = key()
    id_block_size: int | None = key("1", "tokens an id")
    id_scope: str | None = key()
    ids_cover_output: bool = key()
    ids_partial: bool | None = key(
        "", "whether a request's last id may stand for a block that is not full"
    )
    time_grid_ns: int | None = key("ns", "grid that all times lie on")
    num_distinct_times: int = key("1")
    rows_read: int = key("1")
    skipped: dict[str, list[int]] = key("1", "by reason: how many, and the first line")
    clipped: dict[str, list[int]] = key("1", "by reason: how many, and the first line")
    failed: dict[str, list[int]] = key("1", "by reason: how many, and the first line")
    unusable: dict[str, list[int]] = key("1", "by reason: how many, and the first line")
    num_timed: int | None = key("1", "requests with a time of their own (`null`: all)")
    early_turns: int = key("1")
    has_times: bool = key()
    has_outputs: bool = key()
    notes: list[str] = key()
    place: str = key("", "what line numbers count")


class TraceInfo(Document):
    """What a trace holds."""

    title = "Trace"
    schema = "kvsim.trace-info/1"
    origin = "`kvsim trace info FILE --json` (docs/traces.md)"

    name: str = key()
    sha256: str = key("", "hash of the file's bytes")
    statistics: Statistics = key()
    receipt: ReceiptFigures | None = key("", "how the file was understood")
