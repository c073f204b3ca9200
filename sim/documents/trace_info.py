"""How kvsim understands a trace file, and its statistics."""

from __future__ import annotations

from kvsim.sim.documents.part import Document, Part, key


class LengthFigures(Part):
    """Token counts."""

    mean: float = key("1", "tokens")
    p50: float = key("1", "tokens")
    p90: float = key("1", "tokens")
    p99: float = key("1", "tokens")
    max: int = key("1", "tokens")
    total: int = key("1", "tokens")


class ArrivalFigures(Part):
    """When requests come."""

    requests: int = key("1", "those with a time of their own")
    span_s: float = key("s", "first to last")
    rate_per_s: float | None = key("/s")
    gap_cv: float | None = key("1", "standard deviation of the gaps by their mean")
    iod: dict[int, float] = key("1", "dispersion in bins of so many seconds")


class TraceFigures(Part):
    """Statistics of every request of the file."""

    rows: int = key("1", "rows of the file")
    requests: int = key("1", "of them that are in the trace")
    failed: int = key("1", "of them that the source calls failed")
    skipped: int = key("1", "of them that were left out")
    zero_outputs: int = key("1", "requests without an answer")
    prompt: LengthFigures = key()
    output: LengthFigures | None = key("", "answers; `null` where the file does not have them")
    arrivals: ArrivalFigures | None = key("", "`null` where the file says no times")
    sessions: int | None = key("1", "`null` where the file names none")
    users: int | None = key("1", "`null` where the file names none")


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
    statistics: TraceFigures = key()
    receipt: ReceiptFigures | None = key("", "how the file was understood")
