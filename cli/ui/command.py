"""``kvsim ui``: a page on this machine that compares allocators by clicks."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse

    from kvsim.cli.ui.folders import Places

DEFAULT_PORT: Final = 8600
DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_OUT: Final = "kvsim-ui"
_LAST_PORT: Final = 65535


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "ui",
        help="compare allocators on a page in the browser",
        description="Serve a page on this machine: choose trace, model, hardware and "
        "allocators, run them, and see the comparison and the block map. Requires "
        "pip install 'kvsim[ui]'.",
    )
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help=f"default {DEFAULT_PORT}")
    parser.add_argument(
        "--host",
        default=DEFAULT_HOST,
        help=f"address to listen on (default {DEFAULT_HOST}: this machine only; with another "
        "address, everybody who can reach it can run simulations and read traces below --root)",
    )
    parser.add_argument(
        "--root", default=".", metavar="DIR", help="folder with the traces (default: .)"
    )
    parser.add_argument(
        "--out", default=DEFAULT_OUT, metavar="DIR", help=f"run folders (default {DEFAULT_OUT})"
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address, and open no browser"
    )
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from kvsim.cli.ui.folders import Places

    places = Places(Path(arguments.root), Path(arguments.out))
    _check(places, arguments.host, arguments.port)
    from kvsim.cli.ui.server import serve

    host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
    url = f"http://{host}:{arguments.port}"
    print(f"kvsim ui on {url} (Ctrl-C ends it)", flush=True)
    print(f"traces from {places.root.resolve()}, runs into {places.out.resolve()}", flush=True)
    if not arguments.no_browser:
        _open_soon(url)
    serve(places, arguments.host, arguments.port)
    return 0


def _check(places: Places, host: str, port: int) -> None:
    """Refuse before anything starts what would fail later."""
    from kvsim.cli.ui.folders import is_text
    from kvsim.traces.common.files import check_writable

    if find_spec("streamlit") is None:
        raise ValueError("kvsim ui needs Streamlit: pip install 'kvsim[ui]'")
    if not 1 <= port <= _LAST_PORT:
        raise ValueError(f"--port is {port}; allowed are 1 to {_LAST_PORT}")
    if not places.root.is_dir():
        raise ValueError(f"--root {places.root} is no folder")
    check_writable(places.out)
    for option, folder in (("--root", places.root), ("--out", places.out)):
        if not is_text(str(folder.resolve())):
            raise ValueError(f"{option} {folder} has a name that no page can show; rename it")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = error.strerror or str(error)
            raise ValueError(
                f"cannot listen on {host} port {port}: {reason}; try another --port"
            ) from None


def _open_soon(url: str) -> None:
    """Open the browser once the server had time to start."""
    import threading
    import webbrowser

    timer = threading.Timer(1.5, webbrowser.open, (url,))
    timer.daemon = True
    timer.start()
