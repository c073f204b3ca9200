"""The guard in front of the local page: foreign sites get nothing, not even a websocket."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kvsim.cli.ui.server import LOOPBACK, OwnSiteOnly

OWN = {"host": "127.0.0.1:8600"}


def answer(kind: str, headers: dict[str, str]) -> list[dict[str, Any]]:
    """Messages that come back; the app behind the guard says ``passed``."""
    sent: list[dict[str, Any]] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "passed"})

    async def receive() -> dict[str, Any]:
        return {"type": f"{kind}.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: dict[str, Any] = {"type": kind}
    if kind != "lifespan":
        scope["headers"] = [(k.encode(), v.encode("latin-1")) for k, v in headers.items()]
    asyncio.run(OwnSiteOnly(app, LOOPBACK, 8600)(scope, receive, send))
    return sent


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    "headers",
    [
        OWN,
        {"host": "localhost:8600"},
        {"host": "[::1]:8600"},
        OWN | {"origin": "http://127.0.0.1:8600"},
        OWN | {"origin": "http://localhost:8600"},
    ],
)
def test_its_own_page_passes(kind: str, headers: dict[str, str]) -> None:
    assert answer(kind, headers) == [{"type": "passed"}]


@pytest.mark.parametrize(
    "headers",
    [
        OWN | {"origin": "http://evil.example"},
        OWN | {"origin": "http://evil.example:8600"},
        OWN | {"origin": "http://127.0.0.1:8601"},
        OWN | {"origin": "http://127.0.0.1:8600.evil.example"},
        OWN | {"origin": "http://127.0.0.1:8600@evil.example"},
        OWN | {"origin": "null"},
        OWN | {"origin": "http://\xe9:8600"},
        OWN | {"origin": "http://127.0.0.1:99999"},
        {"host": "evil.example:8600"},
        {"host": "127.0.0.1"},
        {"host": ""},
        {},
    ],
)
def test_a_foreign_site_is_refused(headers: dict[str, str]) -> None:
    start, body = answer("http", headers)
    assert (start["type"], start["status"]) == ("http.response.start", 403)
    assert b"own page only" in body["body"]
    assert answer("websocket", headers) == [{"type": "websocket.close", "code": 1008}]


def test_start_and_end_of_the_server_pass() -> None:
    assert answer("lifespan", {}) == [{"type": "passed"}]
