"""Send a batch of requests to an OpenAI-compatible server at once and time every token.

Prompts are lists of random token ids (``/v1/completions`` takes them), so lengths are exact and no
prefix is in the server's cache. Only the standard library: nothing of a client's own costs time
between two tokens but reading one line.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

TIMEOUT_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: lengths in tokens."""

    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Answer:
    """When a request was sent and when its tokens came, on one clock, seconds."""

    ask: Ask
    sent_s: float
    token_times_s: NDArray[np.float64]


def check_url(url: str, *, allow_remote: bool) -> str:
    """Address without a trailing slash; refuses what is not plain HTTP on this machine."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"{url!r} is not of the form http://127.0.0.1:8000")
    if not allow_remote and not _is_loopback(parts.hostname):
        raise ValueError(
            f"{parts.hostname} is not this machine, and the network would be timed with the "
            "server; --allow-remote does it all the same"
        )
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _object(text: bytes) -> dict[str, Any]:
    """A JSON object; ``ValueError`` for anything else."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"no JSON object: {text[:80]!r}")
    return found


class EndpointClient:
    """Client of one server.

    ``clock`` gives seconds; it is read once when a request is sent and once a token.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        seed: int = 0,
        vocabulary: int = 30_000,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        parts = urlsplit(url)
        self._address = (str(parts.hostname), parts.port or 80)
        self._path = parts.path.removesuffix("/v1")
        self._rng = np.random.default_rng(seed)
        self._vocabulary = vocabulary
        self._clock = clock
        self.model = model or self._first_model()

    def send(self, asks: Sequence[Ask]) -> list[Answer]:
        """Send all requests at once and wait for all answers.

        Raises ``ValueError`` where the server answers with an error, or with another length.
        """
        answers: list[Answer | None] = [None] * len(asks)
        failures: list[str] = []
        prompts = [
            self._rng.integers(100, self._vocabulary, ask.prompt_tokens).tolist() for ask in asks
        ]

        def one(place: int) -> None:
            try:
                answers[place] = self._one(asks[place], prompts[place])
            except (OSError, ValueError, http.client.HTTPException) as error:
                failures.append(str(error))

        threads = [  # daemons: after Ctrl-C nobody waits for the answers
            threading.Thread(target=one, args=(place,), daemon=True) for place in range(len(asks))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise ValueError(f"the server at {self._address[0]}:{self._address[1]}: {failures[0]}")
        return [answer for answer in answers if answer is not None]

    def _one(self, ask: Ask, prompt: list[int]) -> Answer:
        body = {
            "model": self.model,
            "prompt": prompt,
            "max_tokens": ask.output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
        }
        connection = http.client.HTTPConnection(*self._address, timeout=TIMEOUT_S)
        try:
            text = json.dumps(body)
            connection.connect()
            sent_s = self._clock()
            connection.request(
                "POST", f"{self._path}/v1/completions", text, {"Content-Type": "application/json"}
            )
            response = connection.getresponse()
            if response.status != http.HTTPStatus.OK:
                raise ValueError(f"status {response.status}: {response.read(200)!r}")
            times = []
            for line in response:
                if not line.startswith(b"data:"):
                    continue
                data = line[5:].strip()
                if data == b"[DONE]":
                    break
                if _object(data).get("choices"):
                    times.append(self._clock())
        finally:
            connection.close()
        if len(times) != ask.output_tokens:
            raise ValueError(
                f"{len(times)} pieces came for {ask.output_tokens} tokens: the server must stream "
                "token by token and honour ignore_eos"
            )
        return Answer(ask, sent_s, np.array(times))

    def _first_model(self) -> str:
        connection = http.client.HTTPConnection(*self._address, timeout=TIMEOUT_S)
        try:
            connection.request("GET", f"{self._path}/v1/models")
            response = connection.getresponse()
            models = _object(response.read())
        except (OSError, ValueError, http.client.HTTPException) as error:
            host, port = self._address
            raise ValueError(f"no OpenAI-compatible server at {host}:{port}: {error}") from None
        finally:
            connection.close()
        try:
            return str(models["data"][0]["id"])
        except (LookupError, TypeError):
            raise ValueError("the server names no model under /v1/models; give --model") from None
