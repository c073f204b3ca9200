"""Memory of a process in pages of the smallest size, where how many it takes is counted.

With transparent huge pages one fault brings 2 MB, and memory is rounded up to as much.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_PR_SET_THP_DISABLE: Final = 41
SMALL_PAGES: Final = f"import ctypes; ctypes.CDLL(None).prctl({_PR_SET_THP_DISABLE}, 1, 0, 0, 0)\n"
"""First line of a program that is run in a process of its own."""
_PR_GET_THP_DISABLE: Final = 42


def can_be_small() -> bool:
    """Whether this system knows that wish."""
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_GET_THP_DISABLE, 0, 0, 0, 0) >= 0)
