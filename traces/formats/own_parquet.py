"""kvsim's own format as parquet: columns of numbers, text and lists, metadata in the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np

from kvsim.traces.formats.own import add, finish, refuse_unknown
from kvsim.traces.reading.batch import Batch, shown
from kvsim.traces.reading.tables import parse_json
from kvsim.traces.trace.own_format import METADATA_KEY, OPTIONAL, REQUIRED, Metadata
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from kvsim.traces.reading.base import Head
    from kvsim.traces.reading.intake import Intake
    from kvsim.traces.reading.source import Source
    from kvsim.traces.trace.trace import Trace

_MAGIC: Final = b"PAR1"
_BATCH_ROWS: Final = 1 << 14
_PAGE_BYTES: Final = 1 << 16


class OwnParquetReader:
    """Reader of the parquet container; places are rows, counted from 1."""

    name = "kvsim-parquet"
    title = "kvsim's own trace format (parquet)"

    def detect(self, head: Head) -> bool:
        """Tell by parquet's magic bytes."""
        return head.data.startswith(_MAGIC)

    def read(self, source: Source, intake: Intake) -> Trace:
        """Read it; unknown columns are refused."""
        import pyarrow as pa  # noqa: PLC0415

        intake.receipt.place = "row"
        try:
            with source.seekable() as stream, _opened(stream) as file:
                metadata = _metadata(source, file.schema_arrow)
                for batch in _batches(file, intake):
                    add(batch, intake, metadata)
        except (pa.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0]
            raise TraceError(f"{source.path}: the parquet data is damaged: {reason}") from error
        return finish(intake, metadata)


def _opened(stream: BinaryIO) -> Any:
    """Open the file so that a row group is read page by page, however many rows it has."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    return pq.ParquetFile(stream, buffer_size=_PAGE_BYTES, pre_buffer=False)


def _metadata(source: Source, schema: Any) -> Metadata:
    missing = [name for name in REQUIRED if name not in schema.names]
    if missing:
        raise TraceError(
            f"{source.path}: column {missing[0]!r} is missing: the file has "
            f"{shown(','.join(schema.names))} and must have {', '.join(REQUIRED)}"
        )
    refuse_unknown(source.path, schema.names)
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise TraceError(f"{source.path}: column {twice[0]!r} occurs twice in the schema")
    for field in schema:
        if not _is_read(field.type):
            raise TraceError(
                f"{source.path}: column {field.name!r} is of type {field.type}; allowed are "
                "integers (int64), text, and lists of integers: cast it"
            )
    text = (schema.metadata or {}).get(METADATA_KEY.encode())
    if text is None:
        return Metadata()
    try:
        value = parse_json(text)
    except ValueError as error:
        raise TraceError(f"{source.path}: metadata is not JSON: {error}") from error
    return Metadata.from_json(source.path, value)


def _is_read(kind: Any) -> bool:
    """Tell whether cells of an arrow type are what cells of JSON can be."""
    import pyarrow as pa  # noqa: PLC0415

    known = (
        pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_boolean,
        pa.types.is_string, pa.types.is_large_string, pa.types.is_null,
    )  # fmt: skip
    nested = (
        pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list,
        pa.types.is_dictionary,
    )  # fmt: skip
    if any(fits(kind) for fits in nested):
        kind = kind.value_type
    return any(fits(kind) for fits in known)


def _batches(file: Any, intake: Intake) -> Iterator[Batch]:
    first = 0
    for record in file.iter_batches(_BATCH_ROWS, use_threads=False):
        rest = record
        while len(rest) and (wanted := intake.rows_wanted()):
            taken = rest.slice(0, wanted)
            rest = rest.slice(wanted)
            numbers = np.arange(first + 1, first + len(taken) + 1)
            first += len(taken)
            columns = {name: _cells(taken.column(name)) for name in taken.schema.names}
            yield Batch(numbers, {n: c for n, c in columns.items() if n in (*REQUIRED, *OPTIONAL)})


def _cells(array: Any) -> NDArray[np.int64] | list[Any]:
    """Hand int64 columns without gaps over as they are, all else cell by cell.

    Not by ``to_numpy``, which imports pandas: half a second and 40 MB.
    """
    import pyarrow as pa  # noqa: PLC0415

    if array.type == pa.int64() and not array.null_count:
        values = np.frombuffer(array.buffers()[1], dtype=np.int64)
        return values[array.offset : array.offset + len(array)]
    cells: list[Any] = array.to_pylist()
    return cells
