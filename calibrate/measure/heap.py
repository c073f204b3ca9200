"""Memory that large intermediate results are given: kept by the process, as servers keep theirs.

glibc hands blocks of over 32 MB back to the system as they are freed, and smaller ones where they
lie on top of the heap. The next call then pays a page fault every 4 kB: the same kernel took from
1 to 5 times as long on a CPU, by what had been freed before.
"""

from __future__ import annotations

import ctypes
import platform
from typing import Final

_TRIM_THRESHOLD: Final = -1  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h
_MMAP_THRESHOLD: Final = -3
_MOST: Final = (1 << 31) - 1  # mallopt takes an int


def keep_heap() -> bool:
    """Keep freed memory from now on; False where that cannot be asked for (no glibc).

    For CPUs; memory of other devices is not in the heap. A page that was never used before still
    costs its first fault.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(mallopt(option, _MOST) for option in (_TRIM_THRESHOLD, _MMAP_THRESHOLD))
