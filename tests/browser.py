"""A real headless Chromium for tests of pages; skipped, with a reason, where there is none.

``browser`` is one for a test session. Each page is opened from its file; what the console says
and every request that is no ``file:``, ``data:`` or ``blob:`` of its own is kept.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.patience import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from selenium.webdriver import Chrome

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
_ANSWER_S: Final = 100.0
"""For one script; Selenium itself waits 120 s for the driver."""
_TRIES: Final = 3


class Browser:
    """A driven Chromium, and the folder that its downloads go to."""

    def __init__(self, driver: Chrome, downloads: Path) -> None:
        self.driver = driver
        self.downloads = downloads

    def open(self, path: Path, width: int = 1200, height: int = 900) -> None:
        """Open a page of ours at a size, and wait until its charts are drawn."""
        self.resize(width, height)
        self.driver.get("about:blank")  # the page before may still be asking its server
        self._log("browser")
        self._log("performance")
        self.driver.get(path.as_uri())
        self.wait("document.documentElement.dataset.ready === '1'")

    def _log(self, kind: str) -> list[dict[str, Any]]:
        """Entries of a log since it was last read."""
        entries: list[dict[str, Any]] = self.driver.get_log(kind)  # type: ignore[no-untyped-call]
        return entries

    def resize(self, width: int, height: int) -> None:
        """Make the page so wide and high, as on a device of that size."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """Tell pages that the reader likes ``light`` or ``dark`` colours."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def ask(self, script: str, *arguments: object) -> Any:
        """Value of a script that returns one."""
        return self.driver.execute_script(script, *arguments)

    def wait(self, condition: str) -> None:
        """Wait until an expression holds."""
        wait_until(lambda: self.ask(f"return {condition}"), lambda: f"never: {condition}")

    def errors(self) -> list[str]:
        """What the console has said since the page was opened."""
        return [entry["message"] for entry in self._log("browser")]

    def requests(self) -> list[str]:
        """Addresses asked for since the page was opened, but for files and what pages make.

        Chromium's own first page may still be loading parts of itself (``chrome:``).
        """
        found = []
        for entry in self._log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.append(message["params"]["request"]["url"])
        return [url for url in found if not url.startswith(("file:", "data:", "blob:", "chrome:"))]

    def downloaded(self, name: str) -> str:
        """Text of a file that a click downloads."""
        path = self.downloads / name
        wait_until(lambda: path.exists() and path.stat().st_size, lambda: f"{name} never came")
        text = path.read_text("utf-8")
        path.unlink()
        return text


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One Chromium for all tests of a session."""
    binary = next((path for name in _NAMES if (path := shutil.which(name))), None)
    driver_path = shutil.which("chromedriver")
    if binary is None or driver_path is None:
        pytest.skip("chromium and chromedriver are not installed (Debian: chromium-driver)")
    from selenium import webdriver  # noqa: PLC0415 - only tests that have a browser need it
    from selenium.webdriver.chrome.service import Service  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("browser")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in (*_ARGUMENTS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(argument)
    downloads = folder / "downloads"
    downloads.mkdir()
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = _started(lambda: webdriver.Chrome(options=options, service=Service(driver_path)))
    driver.set_script_timeout(_ANSWER_S)
    driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)}
    )
    driver.execute_cdp_cmd("Emulation.setFocusEmulationEnabled", {"enabled": True})
    try:
        yield Browser(driver, downloads)
    finally:
        driver.quit()


def _started(start: Callable[[], Chrome]) -> Chrome:
    """A driver; where it does not come in time, or its port is taken by then, another one."""
    from selenium.common.exceptions import WebDriverException  # noqa: PLC0415 - as above

    for _ in range(_TRIES - 1):
        with suppress(WebDriverException):
            return start()
    return start()
