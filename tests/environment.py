"""The same environment for all tests, whatever shell, terminal and account they are started from.

What tests need to vary they set themselves. Processes that tests start inherit what is set here.
"""

from __future__ import annotations

import os
import signal
import site
import sys
import time
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

AT_START: Final = {
    "OMP_NUM_THREADS": "1",  # a worker runs on each core, and threads of two wait for one another
    "LC_ALL": "C.UTF-8",
    "PYTHONUTF8": "1",
}
"""Read once by each process, so it is set before workers are started and torch is imported."""
_ZONE: Final = {"TZ": "NPT-5:45", "LANGUAGE": "en"}
"""A zone that nothing takes for UTC: a time that is read or written as a local one shows."""
_TAKEN_AWAY: Final = {
    "COLUMNS", "LINES", "TERM", "NO_COLOR", "FORCE_COLOR",
    "PYTHONDEVMODE", "PYTHONIOENCODING", "PYTHONOPTIMIZE", "PYTHONWARNINGS",
    "GLIBC_TUNABLES", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_THREAD_LIMIT",
    "http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
}  # fmt: skip
_TAKEN_AWAY_FROM: Final = ("ARROW_", "MALLOC_", "STREAMLIT_", "XDG_")
_UMASK: Final = 0o022


@pytest.fixture(scope="session", autouse=True)
def same_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Take away what a caller's shell says, give a home of our own, and let Ctrl-C be heard.

    Shells start what runs in the background with SIGINT ignored, which processes inherit.
    """
    umask, on_ctrl_c = os.umask(_UMASK), signal.getsignal(signal.SIGINT)
    with pytest.MonkeyPatch.context() as patch:
        for name in [*os.environ]:
            if name in _TAKEN_AWAY or name.startswith(_TAKEN_AWAY_FROM):
                patch.delenv(name)
        for name, value in _ZONE.items():
            patch.setenv(name, value)
        patch.setenv("PYTHONUSERBASE", site.getuserbase())  # packages may lie in the old home
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        _read_zone()
        if on_ctrl_c is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    _read_zone()
    if on_ctrl_c is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(umask)


def _read_zone() -> None:
    if sys.platform != "win32":
        time.tzset()
