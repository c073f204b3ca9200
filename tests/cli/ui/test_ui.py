"""The local page end to end: a server of its own, a real browser, a comparison by clicks."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Final

import pytest

from kvsim.traces import bundled_path
from tests.patience import PATIENCE_S, wait_until
from tests.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.browser import Browser

_TRIES: Final = 5


class Server:
    """``kvsim ui`` in a process of its own, whose words go into the file ``log`` of a folder."""

    def __init__(self, folder: Path, port: int, options: tuple[str, ...]) -> None:
        self.port, self._log = port, folder / "log"
        words = ["ui", "--no-browser", f"--port={port}", *options]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kvsim.cli", *words], cwd=folder, stdout=log, stderr=log
            )

    def said(self) -> str:
        """What it has printed."""
        return self._log.read_text("utf-8")

    def is_up_or_down(self) -> bool:
        """Whether it answers, or has ended."""
        try:
            return _status(self.port, "/_stcore/health") == 200
        except (OSError, http.client.HTTPException):
            return self.process.poll() is not None


@contextmanager
def _serving(folder: Path, *options: str) -> Iterator[Server]:
    """Start it on a free port, and on another one where that is taken by then."""
    for _ in range(_TRIES):
        server = Server(folder, free_port(), options)
        with server.process as process:
            try:
                wait_until(server.is_up_or_down, server.said)
                if process.poll() is None:
                    yield server
                    return
            finally:
                process.kill()
        assert "in use" in server.said(), server.said()
    pytest.fail("no port stays free")


def _answer(port: int, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, b"" if response.status == 101 else response.read()


def _status(port: int, path: str, headers: dict[str, str] | None = None) -> int:
    return _answer(port, path, headers)[0]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """Port and folder of a page that serves the bundled traces."""
    folder = tmp_path_factory.mktemp("ui")
    root = bundled_path("chat-2k").parent
    with _serving(folder, f"--root={root}", f"--out={folder / 'out'}") as server:
        yield server.port, folder


def test_ctrl_c_twice_is_the_end_without_a_word(tmp_path: Path) -> None:
    with _serving(tmp_path, f"--root={tmp_path}") as server:
        for _ in range(2):
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.002)
        assert server.process.wait(PATIENCE_S) in {0, 130}
        assert server.said().count("\n") == 2


RUN: Final = "[...document.querySelectorAll('button')].find(b => b.innerText.trim() == 'Run')"
STOP: Final = "[...document.querySelectorAll('button')].find(b => b.innerText.trim() == 'Stop')"
POOLS: Final = "[...document.querySelectorAll('.st-key-pools img')]"
FORM: Final = "document.querySelector('details')"
LONG: Final = 2000
"""Requests of a run to be looked at: a few are done before a busy browser has drawn them."""


def _begin(browser: Browser, port: int, requests: int) -> None:
    """Open the page anew, ask for so many requests and press Run."""
    browser.driver.get(f"http://127.0.0.1:{port}/")
    browser.wait(RUN)
    _press_run(browser, requests)


def _press_run(browser: Browser, requests: int) -> None:
    limit = "document.querySelectorAll('[data-testid=stNumberInput] input')[1]"
    browser.wait(limit)
    browser.ask(f"{limit}.focus(); {limit}.select()")
    browser.driver.switch_to.active_element.send_keys(f"{requests}\t")
    browser.ask(f"{RUN}.click()")


def _runs(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "out").iterdir())


def _wait_for_runs(folder: Path, names: list[str]) -> None:
    wait_until(lambda: _runs(folder) == names, lambda: (_runs(folder), names))


@pytest.mark.slow
def test_a_comparison_by_clicks(served: tuple[int, Path], browser: Browser) -> None:
    port, folder = served
    browser.resize(1300, 1000)
    browser.requests()
    before = _runs(folder) if (folder / "out").exists() else []
    _begin(browser, port, 40)
    browser.wait("document.body.innerText.includes('The pool, block by block')")
    browser.wait("document.querySelectorAll('.js-plotly-plot .bars path').length >= 18")
    browser.wait(
        "document.querySelector('iframe')?.contentDocument?.documentElement.dataset.ready == '1'"
    )
    text = browser.ask("return document.body.innerText")
    assert "KV memory by state" in text
    assert "--limit=40" in text, "the command that does the same"
    assert browser.ask(f"return [{POOLS}.length, {FORM}.open, {STOP} ?? null]") == [0, False, None]
    (name,) = set(_runs(folder)) - set(before)
    run = folder / "out" / name
    document = json.loads((run / "comparison.json").read_text())
    assert [row["name"] for row in document["rows"]] == ["orca-max", "paged", "prefix"]
    assert document["traces"][0]["requests"] == 40
    asked = [url for url in browser.requests() if url.startswith(("http", "ws"))]
    assert asked
    assert all(url.split("/")[2] == f"127.0.0.1:{port}" for url in asked), asked
    assert sorted(path.name for path in folder.iterdir()) == ["log", "out"], "no file elsewhere"
    assert _status(port, f"/runs/{run.name}/report.html") == 200


@pytest.mark.slow
def test_all_pools_fill_at_once_until_it_is_stopped(
    served: tuple[int, Path], browser: Browser
) -> None:
    port, folder = served
    browser.resize(1300, 1000)
    before = _runs(folder) if (folder / "out").exists() else []
    _begin(browser, port, LONG)
    browser.wait(f"{POOLS}.length == 3")
    assert browser.ask(f"return new Set({POOLS}.map(i => i.getBoundingClientRect().top)).size") == 1
    clock = "parseFloat(document.body.innerText.match(/Simulated time: ([0-9.]+) s/)?.[1] ?? 0)"
    browser.wait(f"{clock} > 0.5")
    first = browser.ask(f"return {POOLS}.map(i => i.src)")
    browser.wait(
        f"{POOLS}.every((i, n) => i.src != arguments[0]?.[n])".replace(
            "arguments[0]", json.dumps(first)
        )
    )
    browser.ask(f"{STOP}.click()")
    browser.wait("document.body.innerText.includes('Stopped: nothing')")
    browser.wait(f"{FORM}.open && {POOLS}.length == 0")
    _wait_for_runs(folder, before)


@pytest.mark.slow
def test_run_again_while_it_runs(served: tuple[int, Path], browser: Browser) -> None:
    port, folder = served
    browser.resize(1300, 1000)
    before = _runs(folder) if (folder / "out").exists() else []
    _begin(browser, port, LONG)
    browser.wait(f"{POOLS}.length == 3")
    assert not browser.ask(f"return {FORM}.open")
    browser.ask(f"{FORM}.querySelector('summary').click()")
    _press_run(browser, 20)
    browser.wait(f"!{FORM}.open")
    browser.wait("document.body.innerText.includes('The pool, block by block')")
    (name,) = set(_runs(folder)) - set(before)
    document = json.loads((folder / "out" / name / "comparison.json").read_text())
    assert document["traces"][0]["requests"] == 20
    assert "Traceback" not in (folder / "log").read_text()


@pytest.mark.slow
def test_no_window_cuts_the_maps_off(served: tuple[int, Path], browser: Browser) -> None:
    port, _ = served
    _begin(browser, port, 60)
    page = "document.querySelector('iframe')?.contentDocument?.documentElement"
    browser.wait(f"{page}?.dataset.ready == '1'")
    for width in (1280, 1190, 1100, 830, 800, 600):
        browser.resize(width, 900)
        browser.wait(f"{page}.scrollHeight <= {page}.clientHeight")
    browser.resize(1200, 900)


@pytest.mark.slow
def test_a_phone_shows_pools_and_result_without_a_further_step(
    served: tuple[int, Path], browser: Browser
) -> None:
    port, _ = served
    browser.resize(390, 844)
    _begin(browser, port, LONG)
    browser.wait(f"{POOLS}.length == 3")
    browser.wait(f"{POOLS}.slice(0, 2).every(i => i.getBoundingClientRect().bottom < 844)")
    assert browser.ask(f"return {POOLS}.every(i => i.getBoundingClientRect().right <= 390)")
    browser.ask(f"{STOP}.click()")
    browser.wait(f"{FORM}.open && {POOLS}.length == 0")
    _press_run(browser, 60)
    head = "[...document.querySelectorAll('h3')].find(h => h.innerText.startsWith('KV memory'))"
    browser.wait(f"{head}?.getBoundingClientRect().bottom < 844")
    x, y = browser.ask(
        f"const b = {head}.getBoundingClientRect(); return [b.left + b.width / 2, b.top + 5]"
    )
    assert browser.ask(f"return {head}.contains(document.elementFromPoint({x}, {y}))"), "covered"
    browser.wait("document.querySelectorAll('.js-plotly-plot .bars path').length >= 18")
    browser.wait("document.querySelector('iframe')?.contentDocument?.body?.innerText.length > 200")
    page = "document.querySelector('iframe').contentDocument.documentElement"
    browser.wait(f"{page}.dataset.ready == '1' && {page}.scrollHeight <= {page}.clientHeight")
    below = "document.querySelector('[data-testid=stCode]').getBoundingClientRect().top"
    frame = "document.querySelector('iframe').getBoundingClientRect().bottom"
    assert browser.ask(f"return {frame} < {below}"), "nothing lies over the maps"
    wide = "document.querySelector('[data-testid=stMain]')"
    assert browser.ask(f"return {wide}.scrollWidth") <= 390
    browser.resize(1200, 900)


@pytest.mark.parametrize(
    "path",
    [
        "/runs/../log",
        "/runs/..%2f/log",
        "/runs/comparison-1/..%2f..%2f..%2flog",
        "/runs/%2e%2e/log",
        "/runs/comparison-1/blocks-1.parquet",
        "/runs/comparison-1/%2fetc%2fpasswd",
    ],
)
def test_no_path_leads_to_another_file(served: tuple[int, Path], path: str) -> None:
    index = _answer(served[0], "/")[1]
    status, body = _answer(served[0], path)
    assert status in {400, 404} or body == index, "a page that knows no such path shows itself"


def test_another_site_gets_nothing(served: tuple[int, Path]) -> None:
    port, _ = served
    own = {"Host": f"127.0.0.1:{port}"}
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    for path, more in (("/", {}), ("/_stcore/stream", upgrade), ("/runs/x/report.html", {})):
        evil = {"Origin": "http://evil.example"}
        assert _status(port, path, own | more | evil) == 403
        assert _status(port, path, {"Host": "evil.example"} | more) == 403
    assert _status(port, "/_stcore/stream", own | upgrade) == 101, "the page itself may"
