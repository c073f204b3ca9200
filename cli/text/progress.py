"""A progress bar on stderr for what takes over a second; silent where stderr is no terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from types import TracebackType

_DELAY_S = 1.0
_UPDATES = 1000


class _Bar(Protocol):
    """What is used of a tqdm bar."""

    def update(self, n: float) -> object: ...
    def close(self) -> None: ...


class Progress:
    """Context manager and callback ``(done, total)``."""

    def __init__(self, unit: str, *, wanted: bool = True) -> None:
        self._unit = unit
        self._wanted = wanted and sys.stderr.isatty()
        self._bar: _Bar | None = None
        self._shown = 0

    def __enter__(self) -> Progress:
        return self

    def __call__(self, done: int, total: int) -> None:
        """Note that ``done`` of ``total`` are through; cheap enough for every event."""
        if not self._wanted:
            return
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(total=total, unit=f" {self._unit}", delay=_DELAY_S, leave=False)
        if (done - self._shown) * _UPDATES < total:
            return
        self._bar.update(done - self._shown)
        self._shown = done

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()
