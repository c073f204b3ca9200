"""Ctrl-C while something must not be cut in two."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def ctrl_c_delayed() -> Generator[None]:
    """Let Ctrl-C wait for the end of the block; outside the main thread nothing changes.

    Processes that start meanwhile never see one, where the system can hold signals back: they
    inherit that.
    """
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or previous is None:
        yield
        return
    pressed = False

    def note(_signal: int, _frame: object) -> None:
        nonlocal pressed
        pressed = True

    signal.signal(signal.SIGINT, note)
    held_back = _hold_back()
    try:
        yield
    finally:
        if held_back is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, held_back)
        signal.signal(signal.SIGINT, previous)
    if pressed:
        signal.raise_signal(signal.SIGINT)


def _hold_back() -> set[int | signal.Signals] | None:
    """Hold Ctrl-C back from this thread; what was held back before, ``None`` where nobody can."""
    if not hasattr(signal, "pthread_sigmask"):
        return None
    return signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
