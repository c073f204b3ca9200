"""The traces that come with kvsim."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kvsim.traces.common.names import unknown
from kvsim.traces.trace.trace import TraceError

BUNDLED: Final = {"chat-2k": "chat-2k.jsonl.gz"}
"""Name -> file in ``traces/data``; made by ``kvsim.traces.synth.synth``."""


def bundled_path(name: str) -> Path:
    """Return where a bundled trace lies; :class:`TraceError` names the choices."""
    if name not in [*BUNDLED]:  # a list compares with what cannot be a key, too
        raise TraceError(unknown("bundled trace", name, BUNDLED))
    return Path(__file__).parent / "data" / BUNDLED[name]
