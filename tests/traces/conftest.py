"""Public traces that tests of several files look at are read once."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pytest

from kvsim.traces import Trace, read_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="session")
def public_trace(shared: Path) -> Callable[[str], Trace]:
    """Read a file of ``shared/traces``, also the rows that no engine could run."""

    @cache
    def read(file: str) -> Trace:
        return read_trace(shared / "traces" / file, keep_unusable=True)

    return read
