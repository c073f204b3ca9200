"""Ports of this machine: for a server of a test, and one where nobody listens."""

from __future__ import annotations

import socket
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def free_port() -> int:
    """A port that is free now; another process may take it before a server does."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def deaf_port() -> Iterator[int]:
    """A port that is held and not listened at: whoever calls is refused."""
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
