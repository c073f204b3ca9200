"""Write a trace in kvsim's own format: the container and compression are told by the suffix."""

from __future__ import annotations

import gzip
import json
import os
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

import numpy as np

from kvsim.traces.common.arguments import check_path
from kvsim.traces.common.final_path import final_path
from kvsim.traces.reading.base import CSV_METADATA_MARK
from kvsim.traces.trace.columns import check_trace
from kvsim.traces.trace.own_format import ENDS_BY, METADATA_KEY, TEXTS, Metadata
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from kvsim.traces.trace.trace import Trace

_CHUNK_ROWS: Final = 1 << 14
_NUMBERS: Final = (
    "max_tokens",
    "priority",
    "turn",
    "after_request",
    "delay_ns",
    "num_samples",
    "beam_width",
    "has_time",
    "timeout_ns",
)
_LISTS: Final = ("also_after", "prefix_ids")


class _Sink(Protocol):
    """What bytes are written to."""

    def write(self, data: bytes, /) -> int: ...


def write_trace(trace: Trace, path: str | Path) -> None:
    """Write ``trace`` to a new file, or over an old one, all at once (temporary name, rename).

    The suffix is one of ``.csv``, ``.jsonl``, ``.parquet``, with ``.gz`` or ``.zst`` after it or
    not. The same trace gives the same bytes.

    Raises
    ------
    TraceError
        Unknown suffix, a trace without requests, text that cannot be written, or no permission.
    """
    check_trace(trace)
    check_path("path", path)
    path = Path(path)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packing = suffixes.pop() if suffixes and suffixes[-1] in (".gz", ".zst") else ""
    form = suffixes[-1] if suffixes else ""
    if form not in _WRITERS:
        raise TraceError(
            f"{path}: the suffix says no format kvsim writes; choices: {', '.join(_WRITERS)}, "
            "with .gz or .zst after it or not"
        )
    if not len(trace):
        raise TraceError(f"{path}: the trace holds no requests, so nothing was written")
    try:
        final = final_path(path)
    except OSError as error:
        raise TraceError(error.strerror) from None
    temporary = final.with_name(f".{final.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file, _packed(file, packing) as stream:
            _WRITERS[form](trace, stream)
        temporary.replace(final)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror or error}") from error
    except UnicodeEncodeError as error:
        raise TraceError(
            f"{path}: an id, user or session is not valid text: {error.reason}"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _packed(file: BinaryIO, packing: str) -> Iterator[_Sink]:
    if packing == ".gz":  # neither name nor time inside, so that bytes can be made again
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as stream:
            yield stream
    elif packing == ".zst":
        import zstandard  # noqa: PLC0415

        with zstandard.ZstdCompressor(level=10).stream_writer(file, closefd=False) as stream:
            yield stream
    else:
        yield file


def metadata_of(trace: Trace) -> Metadata:
    """Return what the format says about the whole trace."""
    prefix = trace.prefix
    if prefix is None:
        return Metadata(name=trace.name, keep_zero=True)
    return Metadata(
        name=trace.name,
        keep_zero=True,
        id_block_tokens=prefix.block_size,
        ids_cover_output=prefix.covers_output,
        id_scope=prefix.scope,
    )


def _chunks(trace: Trace) -> Iterator[dict[str, list[Any]]]:
    """Yield the columns that the trace has, some thousand rows at a time."""
    for first in range(0, len(trace), _CHUNK_ROWS):
        part = slice(first, first + _CHUNK_ROWS)
        chunk: dict[str, list[Any]] = {}
        if trace.ids is not None:
            chunk["id"] = list(trace.ids[part])
        chunk["arrival_ns"] = trace.arrival_ns[part].tolist()
        chunk["prompt_tokens"] = trace.prompt_tokens[part].tolist()
        chunk["output_tokens"] = trace.output_tokens[part].tolist()
        if trace.ends_by is not None:
            chunk["ends_by"] = [ENDS_BY[code] for code in trace.ends_by[part].tolist()]
        for name in TEXTS:
            if (values := getattr(trace, name)) is not None:
                chunk[name] = list(values[part])
        for name in _NUMBERS:
            if (values := getattr(trace, name)) is not None:
                chunk[name] = values[part].astype(np.int64).tolist()
        if trace.also_after is not None:
            chunk["also_after"] = _lists(trace.also_after.offsets, trace.also_after.requests, first)
        if trace.prefix is not None:
            chunk["prefix_ids"] = _lists(trace.prefix.offsets, trace.prefix.ids, first)
        yield chunk


def _lists(offsets: NDArray[np.int64], flat: NDArray[np.int64], first: int) -> list[list[int]]:
    """Return the lists of the rows of a chunk, which begins at row ``first``."""
    bounds = offsets[first : first + _CHUNK_ROWS + 1].tolist()
    numbers = flat[bounds[0] : bounds[-1]].tolist()
    return [numbers[start - bounds[0] : end - bounds[0]] for start, end in pairwise(bounds)]


def _write_jsonl(trace: Trace, stream: _Sink) -> None:
    stream.write(f'{{"{METADATA_KEY}": {metadata_of(trace).to_json()}}}\n'.encode())
    for chunk in _chunks(trace):
        rows = zip(*chunk.values(), strict=True)
        lines = [
            json.dumps(dict(zip(chunk, row, strict=True)), separators=(",", ":")) for row in rows
        ]
        stream.write(("\n".join(lines) + "\n").encode())


def _write_csv(trace: Trace, stream: _Sink) -> None:
    stream.write(f"{CSV_METADATA_MARK}{metadata_of(trace).to_json()}\n".encode())
    for index, chunk in enumerate(_chunks(trace)):
        columns = [_csv_cells(name, column) for name, column in chunk.items()]
        lines = [",".join(chunk)] if not index else []
        lines += [",".join(row) for row in zip(*columns, strict=True)]
        stream.write(("\n".join(lines) + "\n").encode())


def _csv_cells(name: str, column: list[Any]) -> list[str]:
    if name in ("id", *TEXTS):
        return [_quoted(name, text) for text in column]
    if name in _LISTS:
        return [" ".join(map(str, ids)) for ids in column]
    return list(map(str, column))


def _quoted(name: str, text: str) -> str:
    if "\0" in text:
        raise TraceError(f"{name} {text!r} holds a NUL character, which CSV cannot carry")
    plain = text.isascii() and text.replace("-", "").replace("_", "").isalnum()
    return text if plain else '"' + text.replace('"', '""') + '"'


def _write_parquet(trace: Trace, stream: _Sink) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    kinds = dict.fromkeys(("id", *TEXTS, "ends_by"), pa.string())
    kinds |= dict.fromkeys(_LISTS, pa.list_(pa.int64()))
    writer = None
    try:
        for chunk in _chunks(trace):
            if writer is None:
                fields = [(name, kinds.get(name, pa.int64())) for name in chunk]
                schema = pa.schema(fields, {METADATA_KEY: metadata_of(trace).to_json()})
                writer = pq.ParquetWriter(stream, schema, compression="zstd")
            writer.write_table(pa.table(chunk, schema=schema))
    finally:
        if writer is not None:
            writer.close()


_WRITERS: Final[dict[str, Callable[[Trace, _Sink], None]]] = {
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
}
