"""A trace file as bytes: unpacked whatever its suffix says, hashed while it is read."""

from __future__ import annotations

import hashlib
import io
import shutil
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CHUNK_BYTES: Final = 1 << 18
_HEAD_BYTES: Final = 1 << 18
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_SUFFIXES: Final = frozenset({".gz", ".zst", ".csv", ".json", ".jsonl", ".parquet"})


class Source:
    """One trace file; every byte handed out is unpacked and goes into :attr:`sha256`.

    Raises
    ------
    TraceError
        The file is absent, unreadable, empty, or its compressed form is damaged or cut off.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._stream: _Unpacked | None = None
        self._head: bytes | None = None

    @property
    def name(self) -> str:
        """File name without folders and the suffixes that say form or compression."""
        name = self.path
        while name.suffix.lower() in _SUFFIXES:
            name = name.with_suffix("")
        return name.name

    def head(self) -> bytes:
        """Return the first unpacked bytes (256 KiB at most), which formats are told by."""
        if self._head is None:
            with io.BufferedReader(_Unpacked(self.path), _CHUNK_BYTES) as stream:
                self._head = stream.read(_HEAD_BYTES)
            if not self._head:
                raise TraceError(f"{self.path}: the file is empty")
        return self._head

    def open(self) -> io.BufferedReader:
        """Start reading from the first unpacked byte."""
        self._stream = _Unpacked(self.path)
        return io.BufferedReader(self._stream, _CHUNK_BYTES)

    def seekable(self) -> BinaryIO:
        """Open the unpacked bytes as a file that can seek; packed ones go to a temporary file."""
        stream = self.open()
        if self._is_packed():
            unpacked = tempfile.TemporaryFile()  # noqa: SIM115  # the caller closes it
            try:
                shutil.copyfileobj(stream, unpacked, _CHUNK_BYTES)
            except BaseException:
                unpacked.close()
                raise
            unpacked.seek(0)
            return unpacked
        return self.path.open("rb")

    def _is_packed(self) -> bool:
        with self.path.open("rb") as file:
            magic = file.read(len(_ZSTD_MAGIC))
        return magic.startswith(_GZIP_MAGIC) or magic == _ZSTD_MAGIC

    def text(self, *, newline: str | None) -> io.TextIOWrapper:
        """Start reading as UTF-8 text, with or without a byte order mark."""
        return io.TextIOWrapper(self.open(), encoding="utf-8-sig", newline=newline)

    def sha256(self) -> str:
        """Return the hash of all unpacked bytes, reading what is left of them; O(file)."""
        if self._stream is None:
            self.open()
        assert self._stream is not None, "open() sets the stream"
        return self._stream.drain()


class _Unpacked(io.RawIOBase):
    """Unpacked bytes of a file as a raw stream that hashes what passes."""

    def __init__(self, path: Path) -> None:
        self._chunks = _unpacked_chunks(path)
        self._rest = memoryview(b"")
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._hash.update(chunk)
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def drain(self) -> str:
        for chunk in self._chunks:
            self._hash.update(chunk)
        return self._hash.hexdigest()


class _Decompressor(Protocol):
    """What zlib's and zstandard's decompression objects have in common."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def _unpacked_chunks(path: Path) -> Iterator[bytes]:
    if path.is_fifo() or path.is_char_device():
        raise TraceError(
            f"{path}: this is a pipe or a device, and a trace is read more than once: write it to "
            "a file first"
        )
    try:
        with path.open("rb") as file:
            magic = file.read(4)
            file.seek(0)
            chunks = iter(lambda: file.read(_CHUNK_BYTES), b"")
            if magic.startswith(_GZIP_MAGIC):
                yield from _unpack(path, "gzip", lambda: zlib.decompressobj(31), chunks)
            elif magic == _ZSTD_MAGIC:
                yield from _unpack(path, "zstd", _zstd_frame, chunks)
            else:
                yield from chunks
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from error


def _unpack(
    path: Path, kind: str, new_frame: Callable[[], _Decompressor], chunks: Iterator[bytes]
) -> Iterator[bytes]:
    """Unpack one or more frames laid end to end; a frame that does not end is an error."""
    frame = new_frame()
    for packed in chunks:
        rest = packed
        while rest:
            if frame.eof:
                frame = new_frame()
            try:
                unpacked = frame.decompress(rest)
            except Exception as error:  # zlib.error, or zstandard's own type
                raise TraceError(f"{path}: the {kind} data is damaged: {error}") from error
            rest = frame.unused_data if frame.eof else b""
            if unpacked:
                yield unpacked
    if not frame.eof:
        raise TraceError(f"{path}: the {kind} data is cut off before its end; fetch it again")


def _zstd_frame() -> _Decompressor:
    import zstandard  # noqa: PLC0415

    return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
