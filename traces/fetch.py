"""Fetch public traces that are listed in ``catalog.toml``: over https alone, checked, all at once.

Nothing is fetched unless a user asks for it by name.
"""

from __future__ import annotations

import hashlib
import tomllib
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from kvsim.traces.common.files import drafted
from kvsim.traces.common.names import unknown
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from http.client import HTTPMessage
    from typing import IO

SCHEMES: Final = ("https",)
_CHUNK_BYTES: Final = 1 << 18
_TIMEOUT_S: Final = 60
_CATALOG: Final = Path(__file__).parent / "catalog.toml"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the catalog.

    Attributes
    ----------
    sha256
        Of the bytes as they are fetched; None where not known.
    max_bytes
        A longer file is refused.
    """

    name: str
    title: str
    url: str
    licence: str
    max_bytes: int
    sha256: str | None = None

    @property
    def file_name(self) -> str:
        """Last part of the address."""
        return urlsplit(self.url).path.rpartition("/")[2]


def load_catalog(path: Path = _CATALOG) -> dict[str, Entry]:
    """Read the catalog: entries by name."""
    tables = tomllib.loads(path.read_text("utf-8"))
    return {name: Entry(name=name, **table) for name, table in tables.items()}


def find_entry(name: str, catalog: dict[str, Entry]) -> Entry:
    """Return an entry; :class:`TraceError` names the choices."""
    if name not in catalog:
        raise TraceError(unknown("trace", name, catalog, "see kvsim trace fetch"))
    return catalog[name]


def fetch(
    entry: Entry,
    path: Path,
    *,
    schemes: Sequence[str] = SCHEMES,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Fetch a file to ``path``; what was there stays until all is there and checked.

    Raises
    ------
    TraceError
        No https (redirections included), no answer, too long, cut off, or another sha256.
    """
    _check_scheme(entry.url, schemes)
    with drafted(path) as draft:
        with _opened(entry, schemes) as answer, draft.open("wb") as file:
            digest = _copy(entry, answer, file, on_progress)
        if entry.sha256 is not None and digest != entry.sha256:
            raise TraceError(
                f"{entry.url}: sha256 is {digest}, the catalog says {entry.sha256}: the file has "
                "changed since, and was not kept"
            )


def _opened(entry: Entry, schemes: Sequence[str]) -> Any:
    opener = urllib.request.build_opener(_Redirects(schemes))
    try:
        return opener.open(entry.url, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        raise TraceError(f"{entry.url}: the server answers {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise TraceError(f"{entry.url}: cannot be fetched: {error.reason}") from error


def _copy(
    entry: Entry, answer: Any, file: IO[bytes], on_progress: Callable[[int, int], None]
) -> str:
    """Copy an answer within the size limit and return its sha256."""
    said = answer.headers.get("Content-Length")
    expected = int(said) if said is not None and said.isdecimal() else None
    if expected is not None and expected > entry.max_bytes:
        raise _too_long(entry)
    digest, count = hashlib.sha256(), 0
    while chunk := _next(entry, answer):
        count += len(chunk)
        if count > entry.max_bytes:
            raise _too_long(entry)
        digest.update(chunk)
        file.write(chunk)
        on_progress(count, expected or entry.max_bytes)
    if expected is not None and count < expected:
        raise TraceError(f"{entry.url}: cut off after {count:,} of {expected:,} bytes; try again")
    return digest.hexdigest()


def _next(entry: Entry, answer: Any) -> bytes:
    try:
        chunk: bytes = answer.read(_CHUNK_BYTES)
    except OSError as error:
        raise TraceError(f"{entry.url}: cannot be fetched: {error.strerror or error}") from error
    return chunk


def _too_long(entry: Entry) -> TraceError:
    return TraceError(
        f"{entry.url}: the file is longer than the {entry.max_bytes:,} bytes the catalog allows"
    )


def _check_scheme(url: str, schemes: Sequence[str]) -> None:
    if urlsplit(url).scheme not in schemes:
        raise TraceError(f"{url}: only {', '.join(schemes)} addresses are fetched")


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirections to allowed addresses."""

    def __init__(self, schemes: Sequence[str]) -> None:
        self._schemes = schemes

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _check_scheme(newurl, self._schemes)
        return super().redirect_request(req, fp, code, msg, headers, newurl)
