"""What all tests share: hypothesis profiles, and the folder of recorded logs and public traces.

Profiles: ``dev`` at a desk, ``ci`` (the same examples each time) where ``CI`` is set, ``nightly``
(2,000 examples) with ``KVSIM_NIGHTLY=1``, which also runs what is marked ``slow`` (so does
``pytest -m slow``). A test that needs more than the usual 60 takes
``@settings(max_examples=max(200, settings().max_examples))``: 200 normally, 2,000 at night.

A failure is told on stderr when it happens, with what reproduces it; pytest has the rest at the
end. Examples are told as they were found: shrinking them may take minutes where engines run. With
``KVSIM_SHRINK=1`` they are shrunk (hypothesis starts with those that failed before).

``tests/environment.py`` says what is the same for all tests on every machine.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.browser import browser  # noqa: F401 - a fixture for all
from tests.environment import AT_START, same_environment  # noqa: F401 - a fixture for all

os.environ.update(AT_START)

_LINES_TOLD = 12  # of a failure
_SLOW_DATA = [HealthCheck.too_slow]  # says how busy the machine is, not whether the code is right
_SHRINKS = os.environ.get("KVSIM_SHRINK") == "1"
settings.register_profile(
    "dev",
    max_examples=60,
    deadline=None,
    print_blob=True,
    phases=set(Phase) if _SHRINKS else set(Phase) - {Phase.shrink, Phase.explain},
    suppress_health_check=_SLOW_DATA,
)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True)
settings.register_profile("nightly", settings.get_profile("dev"), max_examples=2000)
if os.environ.get("KVSIM_NIGHTLY") == "1":
    settings.load_profile("nightly")
else:
    settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes minutes, unless it is asked for."""
    if os.environ.get("KVSIM_NIGHTLY") == "1" or "slow" in str(config.getoption("-m")):
        return
    skip = pytest.mark.skip(reason="takes minutes: KVSIM_NIGHTLY=1 or -m slow")
    for item in items:
        if item.get_closest_marker("slow") is not None:
            item.add_marker(skip)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Tell a failure at once: what differs, and the example that shows it."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:  # the controller hears of all
        why = [line for line in report.longreprtext.splitlines() if line.startswith("E  ")]
        print(f"\n{report.nodeid} failed", *why[-_LINES_TOLD:], sep="\n", file=sys.__stderr__)


def pytest_collection_finish() -> None:
    """Spare the collector what lives to the end (modules, tests) and most of its rounds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder ``shared`` beside the checkout: recorded engine logs and public traces."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not folder.is_dir():
        pytest.skip(f"recorded logs and public traces are not here: {folder} is absent")
    return folder
