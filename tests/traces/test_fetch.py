"""Fetching, from a server on this machine alone."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from kvsim.traces import TraceError
from kvsim.traces.fetch import Entry, fetch, find_entry, load_catalog
from tests.ports import deaf_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BODY = b"arrival_ns,prompt_tokens,output_tokens\n0,1,1\n" * 20_000
LOCAL = ("http", "https")


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/missing.csv":
            self.send_error(404)
            return
        if self.path.startswith("/moved"):
            self.send_response(302)
            target = "ftp://127.0.0.1/x.csv" if self.path == "/moved-away.csv" else "/x.csv"
            self.send_header("Location", target)
            self.end_headers()
            return
        self.send_response(200)
        if self.path != "/endless.csv":
            more = 5 if self.path == "/cut.csv" else 0
            self.send_header("Content-Length", str(len(BODY) + more))
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_: object) -> None:  # keeps the test's output clean
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


@pytest.fixture
def entry(server: str) -> Entry:
    return Entry("x", "a trace", f"{server}/x.csv", "CC0", len(BODY))


def test_a_file_is_fetched_and_checked(entry: Entry, tmp_path: Path) -> None:
    known = replace(entry, sha256=hashlib.sha256(BODY).hexdigest())
    seen: list[tuple[int, int]] = []
    fetch(
        known,
        tmp_path / "x.csv",
        schemes=LOCAL,
        on_progress=lambda done, total: seen.append((done, total)),
    )
    assert (tmp_path / "x.csv").read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
    assert known.file_name == "x.csv"


def test_a_redirection_is_followed(entry: Entry, server: str, tmp_path: Path) -> None:
    fetch(replace(entry, url=f"{server}/moved.csv"), tmp_path / "x.csv", schemes=LOCAL)
    assert (tmp_path / "x.csv").read_bytes() == BODY


@pytest.mark.parametrize(
    ("page", "changes", "message"),
    [
        ("x.csv", {"sha256": "0" * 64}, "the catalog says 0000"),
        ("x.csv", {"max_bytes": 99}, "longer than the 99 bytes"),
        ("endless.csv", {"max_bytes": 99}, "longer than the 99 bytes"),
        ("cut.csv", {"max_bytes": 10**9}, "cut off after 900,000 of 900,005 bytes"),
        ("missing.csv", {}, "the server answers 404"),
        ("moved-away.csv", {}, "only http, https addresses are fetched"),
    ],
)
def test_what_was_there_stays(
    entry: Entry, server: str, tmp_path: Path, page: str, changes: dict[str, object], message: str
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("old")
    broken = replace(entry, url=f"{server}/{page}", **changes)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match=message):
        fetch(broken, path, schemes=LOCAL)
    assert path.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


def test_only_https_unless_a_test_says_otherwise(entry: Entry, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="only https addresses are fetched"):
        fetch(entry, tmp_path / "x.csv")


def test_no_server(entry: Entry, tmp_path: Path) -> None:
    with deaf_port() as port, pytest.raises(TraceError, match="cannot be fetched"):
        fetch(
            replace(entry, url=f"http://127.0.0.1:{port}/x.csv"),
            tmp_path / "x.csv",
            schemes=LOCAL,
        )


def test_the_catalog_is_in_order() -> None:
    catalog = load_catalog()
    assert len(catalog) > 10
    for entry in catalog.values():
        assert entry.url.startswith("https://raw.githubusercontent.com/")
        assert entry.title
        assert entry.licence
        assert entry.file_name
        assert 0 < entry.max_bytes <= 2**31
        assert entry.sha256 is None or len(bytes.fromhex(entry.sha256)) == 32
    with pytest.raises(TraceError, match=r"trace 'azure' is unknown .*: azure-conv-2023, "):
        find_entry("azure", catalog)
