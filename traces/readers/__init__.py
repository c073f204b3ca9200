"""Trace formats: one reader a format, found by content.

A later format is one more file and one more entry of :data:`READERS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.traces.own_format import REQUIRED
from kvsim.traces.readers.aibrix import AibrixReader
from kvsim.traces.readers.aiperf import AiperfReader
from kvsim.traces.readers.aiperf_export import AiperfExportReader
from kvsim.traces.readers.apex import ApexReader
from kvsim.traces.readers.arctic import ArcticReader
from kvsim.traces.readers.azure import AzureReader
from kvsim.traces.readers.bailian import BailianReader
from kvsim.traces.readers.base import Head, Reader
from kvsim.traces.readers.batch import shown
from kvsim.traces.readers.burstgpt import BurstGptReader
from kvsim.traces.readers.fleet_sim import FleetSimReader
from kvsim.traces.readers.golden import GoldenReader
from kvsim.traces.readers.guidellm import GuideLlmReader
from kvsim.traces.readers.inference_perf import InferencePerfReader
from kvsim.traces.readers.kv_cache_tester import KvCacheTesterReader
from kvsim.traces.readers.llmperf import LlmPerfReader
from kvsim.traces.readers.llmservingsim import (
    LlmServingSimBlocksReader,
    LlmServingSimMeasuredReader,
    LlmServingSimReader,
)
from kvsim.traces.readers.mooncake import MooncakeReader
from kvsim.traces.readers.otel import OtelReader
from kvsim.traces.readers.own import OwnCsvReader, OwnJsonLinesReader, misspelt
from kvsim.traces.readers.own_parquet import OwnParquetReader
from kvsim.traces.readers.refused import (
    CACHE_QUERIES,
    INFERENCE_PERF_SUMMARY,
    LENGTH_CDF,
    RefusedFormat,
)
from kvsim.traces.readers.servegen import ServeGenReader
from kvsim.traces.readers.tair import TairTokensReader
from kvsim.traces.readers.tracelab import TraceLabReader
from kvsim.traces.readers.tracelab_rounds import TraceLabRoundsReader
from kvsim.traces.readers.vidur import VidurReader
from kvsim.traces.readers.vllm_bench import VllmBenchReader
from kvsim.traces.trace import TraceError

if TYPE_CHECKING:
    from kvsim.traces.source import Source

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
        raise TraceError(f"--format {name} is unknown; choices: {', '.join(format_names())}")
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
