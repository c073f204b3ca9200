"""Common parts of all recordings: JSON lines with a header that names a trace."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import TYPE_CHECKING, Any, Protocol

from kvsim.traces.formats.golden import canonical_sha256
from kvsim.traces.reading.source import Source

if TYPE_CHECKING:
    from pathlib import Path


class Recording(Protocol):
    """A recorded run: its path and its header."""

    @property
    def path(self) -> Path:
        """The file."""
        ...

    @property
    def header(self) -> dict[str, Any]:
        """Its first line."""
        ...


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read the lines of a recording, compressed or not; raise ValueError if it is not one."""
    raw = path.read_bytes()
    try:
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
    except (OSError, EOFError, ValueError, zlib.error) as error:
        msg = f"{path}: not a recorded schedule: {error}"
        raise ValueError(msg) from None
    records = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            record = json.loads(line)
        except ValueError as error:
            msg = f"{path}: not a recorded schedule: line {number} is not JSON: {error}"
            raise ValueError(msg) from None
        if not isinstance(record, dict):
            msg = f"{path}: not a recorded schedule: line {number} is not a JSON object"
            raise ValueError(msg)
        records.append(record)
    return records


def find_trace(log: Recording) -> Path:
    """Find the trace named in a header: beside the log, in traces/ there, in ../vllm/traces."""
    name = f"{_trace_name(log)}.json.gz"
    folder = log.path.parent
    places = (folder / name, folder / "traces" / name, folder.parent / "vllm" / "traces" / name)
    for place in places:
        if place.exists():
            return place
    tried = ", ".join(str(place) for place in places)
    msg = f"{log.path}: its trace {name} is in none of {tried}; name it with --trace"
    raise ValueError(msg)


def is_trace_of(log: Recording, path: Path) -> bool:
    """Whether a recording used this trace: by the header's hash, or by name without a hash."""
    document = json.loads(Source(path).text(newline=None).read())
    if "trace_sha256" in log.header:
        return bool(canonical_sha256(document) == log.header["trace_sha256"])
    return bool(document.get("name") == _trace_name(log))


def _trace_name(log: Recording) -> object:
    return log.header.get("trace_name") or log.header.get("trace")
