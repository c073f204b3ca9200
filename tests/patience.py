"""How long tests wait for other processes: so long that only a fault takes longer.

A busy machine makes a test slow; it is to make none red.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S: Final = 300.0
_LOOK_S: Final = 0.05


def wait_until(holds: Callable[[], object], otherwise: Callable[[], object]) -> None:
    """Wait until ``holds()`` is true; after the patience fail with what ``otherwise()`` says."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s, otherwise()
        time.sleep(_LOOK_S)
