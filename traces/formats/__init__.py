"""Trace formats: one reader a format, found by content.

A later format is one more file and one more entry of :data:`READERS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.traces.common.names import unknown
from kvsim.traces.formats.aibrix import AibrixReader
from kvsim.traces.formats.aiperf import AiperfReader
from kvsim.traces.formats.aiperf_export import AiperfExportReader
from kvsim.traces.formats.apex import ApexReader
from kvsim.traces.formats.arctic import ArcticReader
from kvsim.traces.formats.azure import AzureReader
from kvsim.traces.formats.bailian import BailianReader
from kvsim.traces.formats.burstgpt import BurstGptReader
from kvsim.traces.formats.fleet_sim import FleetSimReader
from kvsim.traces.formats.golden import GoldenReader
from kvsim.traces.formats.guidellm import GuideLlmReader
from kvsim.traces.formats.inference_perf import InferencePerfReader
from kvsim.traces.formats.kv_cache_tester import KvCacheTesterReader
from kvsim.traces.formats.llmperf import LlmPerfReader
from kvsim.traces.formats.llmservingsim import (
    LlmServingSimBlocksReader,
    LlmServingSimMeasuredReader,
    LlmServingSimReader,
)
from kvsim.traces.formats.mooncake import MooncakeReader
from kvsim.traces.formats.otel import OtelReader
from kvsim.traces.formats.own import OwnCsvReader, OwnJsonLinesReader, misspelt
from kvsim.traces.formats.own_parquet import OwnParquetReader
from kvsim.traces.formats.refused import (
    CACHE_QUERIES,
    INFERENCE_PERF_SUMMARY,
    LENGTH_CDF,
    RefusedFormat,
)
from kvsim.traces.formats.servegen import ServeGenReader
from kvsim.traces.formats.tair import TairTokensReader
from kvsim.traces.formats.tracelab import TraceLabReader
from kvsim.traces.formats.tracelab_rounds import TraceLabRoundsReader
from kvsim.traces.formats.vidur import VidurReader
from kvsim.traces.formats.vllm_bench import VllmBenchReader
from kvsim.traces.reading.base import Head, Reader
from kvsim.traces.reading.batch import shown
from kvsim.traces.trace.own_format import REQUIRED
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from kvsim.traces.reading.source import Source

_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")

__all__ = ["READERS", "Head", "Reader", "format_names", "reader_for"]

READERS: Final[tuple[Reader, ...]] = (
    OwnCsvReader(),
    OwnJsonLinesReader(),
    OwnParquetReader(),
    GoldenReader(),
    AzureReader(),
    VidurReader(),
    MooncakeReader(),
    AiperfReader(),
    ArcticReader(),
    BailianReader(),
    KvCacheTesterReader(),
    BurstGptReader(),
    ApexReader(),
    LlmServingSimBlocksReader(),
    LlmServingSimReader(),
    LlmServingSimMeasuredReader(),
    TraceLabReader(),
    TraceLabRoundsReader(),
    FleetSimReader(),
    AibrixReader(),
    TairTokensReader(),
    ServeGenReader(),
    AiperfExportReader(),
    GuideLlmReader(),
    LlmPerfReader(),
    InferencePerfReader(),
    VllmBenchReader(),
    OtelReader(),
    LENGTH_CDF,
    CACHE_QUERIES,
    INFERENCE_PERF_SUMMARY,
)
"""All formats that kvsim reads, and last those that it knows and refuses with the reason."""
_READ: Final = tuple(reader for reader in READERS if not isinstance(reader, RefusedFormat))


def format_names() -> list[str]:
    """Return the names that ``--format`` takes."""
    return [reader.name for reader in _READ]


def reader_for(source: Source, name: str | None) -> Reader:
    """Return the reader called ``name``, or the one whose format the content shows.

    Raises
    ------
    TraceError
        No such name, no format fits, or several do.
    """
    if name is not None:
        for reader in _READ:
            if reader.name == name:
                return reader
        more = "see kvsim list formats"
        raise TraceError(unknown("--format", name, format_names(), more))
    if source.path.is_dir() and any(source.path.glob("chunk-*-trace.csv*")):
        return next(reader for reader in _READ if isinstance(reader, ServeGenReader))
    head = Head.of(source.head())
    fitting = [reader for reader in READERS if reader.detect(head)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = " and ".join(reader.name for reader in fitting)
        raise TraceError(f"{source.path}: {names} both fit the content; choose one with --format")
    if head.text:
        hint = misspelt(head.csv_fields | head.json_keys)
        hint = hint or f"kvsim's own format needs {', '.join(REQUIRED)}: docs/traces.md"
        seen = f"the first line is {shown(head.first_line)} ({hint})"
    elif head.data.startswith(_UTF16_MARKS):
        seen = "this is UTF-16 text, which must be converted to UTF-8"
    else:
        seen = "this is no text"
    raise TraceError(
        f"{source.path}: no known format fits: {seen}; known formats, also for --format: "
        f"{', '.join(format_names())}"
    )
