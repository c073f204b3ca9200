"""A fake server whose step costs are known, on a clock that only its steps move."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kvsim.calibrate.engine_logs.endpoint import measure_endpoint, sweep
from kvsim.calibrate.engine_logs.endpoint_client import Ask, EndpointClient, check_url
from kvsim.cli.main import main
from tests.patience import PATIENCE_S
from tests.ports import deaf_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kvsim.calibrate.engine_logs.endpoint_client import Answer

STEP_S = 8e-3
TOKEN_S = 40e-6
DECODE_S = 120e-6
CONTEXT_S = 150e-9
MODELS = {"data": [{"id": "fake"}]}
PIECE = '{"choices": [{"text": "x"}]}'


class Clock:
    """Seconds that a server moves; counts how often clients have read it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.reads = 0
        self._changed = threading.Condition()

    def read(self) -> float:
        with self._changed:
            self.reads += 1
            self._changed.notify_all()
            return self.now_s

    def advance(self, seconds: float) -> None:
        with self._changed:
            self.now_s += seconds

    def await_reads(self, number: int) -> None:
        """Wait until clients have stamped all that was sent to them."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.reads >= number, PATIENCE_S)


class FakeEngine:
    """Batches what is there: a step prefills who is new and decodes the others.

    It starts when ``expected`` requests have arrived, so that a batch is one whatever the machine.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.expected = 1
        self.requests: list[dict[str, Any]] = []
        self.stamps = 0
        self._arrived = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def submit(self, prompt_tokens: int, output_tokens: int) -> Queue[bool]:
        """Queue that gets True for each token and False at the end."""
        tokens: Queue[bool] = Queue()
        request = {"prompt": prompt_tokens, "left": output_tokens, "done": 0, "tokens": tokens}
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        return tokens

    def _run(self) -> None:
        while True:
            with self._arrived:
                self._arrived.wait_for(
                    lambda: (
                        any(r["done"] for r in self.requests) or len(self.requests) >= self.expected
                    )
                )
                batch = list(self.requests)
                self.stamps += sum(not request["done"] for request in batch)
            self._step(batch)

    def _step(self, batch: list[dict[str, Any]]) -> None:
        self.clock.await_reads(self.stamps)
        new = [request for request in batch if not request["done"]]
        old = [request for request in batch if request["done"]]
        context = sum(request["prompt"] + request["done"] for request in old)
        tokens = sum(request["prompt"] for request in new)
        self.clock.advance(STEP_S + TOKEN_S * tokens + DECODE_S * len(old) + CONTEXT_S * context)
        self.stamps += len(batch)
        for request in batch:
            request["done"] += 1
            request["left"] -= 1
        with self._arrived:
            self.requests = [request for request in self.requests if request["left"]]
        for request in batch:
            request["tokens"].put(True)
            if not request["left"]:
                request["tokens"].put(False)


@contextmanager
def fake_server(
    engine: FakeEngine, status: int = 200, models: object = MODELS, piece: str = PIECE
) -> Iterator[str]:
    """Address of a server that streams what the engine makes."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(json.dumps(models).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if status != 200:
                self.send_error(status, "no room")
                return
            assert (body["model"], body["stream"], body["ignore_eos"]) == ("fake", True, True)
            tokens = engine.submit(len(body["prompt"]), body["max_tokens"])
            self.send_response(200)
            self.end_headers()
            while tokens.get():
                self.wfile.write(f"data: {piece}\n\n".encode())
                self.wfile.flush()
            self.wfile.write(b'data: {"choices": []}\n\ndata: [DONE]\n\n')

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64  # a busy machine accepts late, and all call at once

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_fit_recovers_the_step_costs_of_a_server() -> None:
    clock = Clock()
    engine = FakeEngine(clock)
    with fake_server(engine) as url:
        client = EndpointClient(url, clock=clock.read)

        def send(asks: Sequence[Ask]) -> list[Answer]:
            engine.expected = len(asks)
            return client.send(asks)

        design = sweep(max_batch=8, max_context=1040, output_tokens=16, repeats=1)
        fit = measure_endpoint(send, design)
    assert client.model == "fake"
    np.testing.assert_allclose(fit.ttft.coefficients[:2], [STEP_S, TOKEN_S], rtol=0.03)
    np.testing.assert_allclose(fit.itl.coefficients, [STEP_S, DECODE_S, CONTEXT_S], rtol=0.03)
    assert fit.ttft.coefficients[2] * 1024**2 / 2 < 0.03 * TOKEN_S * 1024


def test_sweep_moves_batch_and_context_apart() -> None:
    design = sweep(max_batch=16, max_context=4096, output_tokens=64)
    rows = np.array([(requests, requests * prompt) for requests, prompt in design.batches])
    assert abs(np.corrcoef(rows.T)[0, 1]) < 0.6
    assert max(prompt for _, prompt in design.batches) + design.output_tokens == 4096
    assert design.num_requests == 3 * (5 + sum(requests for requests, _ in design.batches))


def test_a_sweep_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"--max-batch 2 .* leave nothing to sweep"):
        sweep(max_batch=2)


def test_answers_that_never_overlap_are_refused() -> None:
    clock = Clock()
    with fake_server(FakeEngine(clock)) as url:
        client = EndpointClient(url, clock=clock.read)

        def send(asks: Sequence[Ask]) -> list[Answer]:
            return [client.send([ask])[0] for ask in asks]

        with pytest.raises(ValueError, match="decoded together for 0 tokens"):
            measure_endpoint(send, sweep(max_batch=4, max_context=640, output_tokens=16, repeats=1))


@pytest.mark.parametrize(
    ("url", "remote", "words"),
    [
        ("http://example.org:8000", False, "example.org is not this machine"),
        ("https://127.0.0.1", False, "is not of the form http://"),
        ("127.0.0.1:8000", False, "is not of the form http://"),
    ],
)
def test_addresses_that_are_refused(url: str, remote: bool, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_url(url, allow_remote=remote)


def test_addresses_that_are_taken() -> None:
    assert check_url("http://localhost:8000/", allow_remote=False) == "http://localhost:8000"
    assert check_url("http://[::1]:8000", allow_remote=False) == "http://[::1]:8000"
    assert check_url("http://example.org", allow_remote=True) == "http://example.org"


def test_a_server_that_fails_is_named() -> None:
    with fake_server(FakeEngine(Clock()), status=503) as url:
        client = EndpointClient(url)
        with pytest.raises(ValueError, match="status 503"):
            client.send([Ask(8, 2)])


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ([], "no OpenAI-compatible server at .*: no JSON object"),
        ({"data": []}, "names no model under /v1/models"),
        ({"data": [{"name": "x"}]}, "names no model under /v1/models"),
    ],
)
def test_servers_that_name_no_model_are_refused(models: object, words: str) -> None:
    with (
        fake_server(FakeEngine(Clock()), models=models) as url,
        pytest.raises(ValueError, match=words),
    ):
        EndpointClient(url)


def test_pieces_that_are_no_objects_are_refused() -> None:
    """They were lost with their answer before."""
    clock = Clock()
    with fake_server(FakeEngine(clock), piece="[1]") as url:
        client = EndpointClient(url, clock=clock.read)
        with pytest.raises(ValueError, match=r"no JSON object: b'\[1\]'"):
            client.send([Ask(8, 1)])


def test_a_place_for_the_terms_is_looked_for_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "none" / "terms.json")
    assert main(["calibrate", "endpoint", "http://127.0.0.1:1", "--out", out]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_command_refuses_other_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "endpoint", "http://192.0.2.1:8000"]) == 2
    assert "192.0.2.1 is not this machine" in capsys.readouterr().err


def test_command_says_what_it_would_send(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "endpoint", "http://127.0.0.1:1", "--dry-run"]) == 0
    assert "183 requests" in capsys.readouterr().out


def test_command_names_a_server_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    with deaf_port() as port:
        assert main(["calibrate", "endpoint", f"http://127.0.0.1:{port}"]) == 2
    assert f"no OpenAI-compatible server at 127.0.0.1:{port}" in capsys.readouterr().err
