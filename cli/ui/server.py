"""The server of the local page: Streamlit behind a guard against foreign sites.

A page of another site, open in the same browser, can send requests to this machine. Browsers name
that site in ``Origin``, and the name it called in ``Host``: both must be ours. Otherwise nothing
behind the guard runs, neither HTTP nor a websocket.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from kvsim.cli.ui.folders import Places

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
    AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_OPTIONS: Final = {
    "browser.gatherUsageStats": False,
    "client.toolbarMode": "minimal",
    "runner.magicEnabled": False,
    "server.fileWatcherType": "none",
    "server.headless": True,
    "server.maxUploadSize": 1,
    "theme.dark.primaryColor": "#4f9fd8",
    "theme.light.primaryColor": "#1b6ca8",
}


class OwnSiteOnly:
    """ASGI middleware that answers 403 unless host and origin are ``hosts`` at ``port``."""

    def __init__(self, app: AsgiApp, hosts: tuple[str, ...], port: int) -> None:
        self._app = app
        self._places = frozenset((host, port) for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan" or self._is_own(dict(scope["headers"])):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            text = b"kvsim ui answers its own page only\n"
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": text})

    def _is_own(self, headers: dict[bytes, bytes]) -> bool:
        host, origin = headers.get(b"host", b""), headers.get(b"origin")
        return self._is_place(b"//" + host) and (origin is None or self._is_place(origin))

    def _is_place(self, url: bytes) -> bool:
        try:
            parts = urlsplit(url.decode("ascii"))
            return (parts.hostname, parts.port or 80) in self._places
        except ValueError:
            return False


def serve(places: Places, host: str, port: int) -> None:
    """Serve the page until Ctrl-C.

    Raises
    ------
    OSError
        Where the port is taken.
    """
    import logging

    import uvicorn
    from starlette.middleware import Middleware
    from starlette.responses import FileResponse, Response
    from starlette.routing import Route
    from streamlit.starlette import App
    from streamlit.web.bootstrap import load_config_options

    async def file_of_run(request: Any) -> Response:
        found = places.file_of(request.path_params["run"], request.path_params["name"])
        return Response("not found\n", 404) if found is None else FileResponse(found)

    places.to_environment()
    load_config_options(_OPTIONS | {"server.address": host, "server.port": port})
    hosts = LOOPBACK if host in LOOPBACK else (host, *LOOPBACK)
    app = App(
        Path(__file__).with_name("page.py"),
        routes=[Route("/runs/{run}/{name}", file_of_run)],
        middleware=[Middleware(OwnSiteOnly, hosts=hosts, port=port)],
    )
    # who presses Ctrl-C twice wants the end, not uvicorn's account of what was cut off by it
    errors = logging.getLogger("uvicorn.error")
    errors.addFilter(lambda record: "CancelledError" not in record.getMessage())
    uvicorn.run(app, host=host, port=port, log_level="warning")
