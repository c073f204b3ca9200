"""The device under test: which one, how large its last-level cache is, and what it calls itself."""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""Names of dtypes here, and torch's."""
_KINDS: Final = {"cuda": "gpu", "mps": "apple", "cpu": "cpu"}
_PACKAGES: Final = ("torch", "triton", "flashinfer-python", "numpy", "scipy")
_CACHE_BYTES_WHERE_UNKNOWN: Final = 32 << 20
_CACHES: Final = "/sys/devices/system/cpu/cpu0/cache"


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a profile says about where it was measured."""

    kind: str
    """``gpu``, ``apple`` or ``cpu``."""
    product: str
    total_bytes: int
    cache_bytes: int
    """Last-level cache, shared by all cores."""
    driver: str
    num_threads: int
    """CPU threads of torch."""
    versions: dict[str, str]

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)


def find_device(name: str) -> torch.device:
    """Device of a name; ``auto`` takes CUDA, else Apple's, else the CPU.

    Raises ``ValueError`` where torch is missing or does not see that device.
    """
    try:
        import torch
    except ImportError:
        raise ValueError(
            "measuring needs torch, which is not installed: pip install 'kvsim[calibrate]'"
        ) from None
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    there["cpu"] = True
    if name == "auto":
        name = next(device for device, is_there in there.items() if is_there)
    if not there.get(name):
        found = ", ".join(device for device, is_there in there.items() if is_there)
        raise ValueError(f"device {name!r} is not there; torch sees: {found}")
    return torch.device(name)


def default_dtype(device: torch.device) -> str:
    """16 bits where the device has units for them; 32 on a CPU, which may lack them."""
    return "fp32" if device.type == "cpu" else "bf16"


def facts_of(device: torch.device) -> DeviceFacts:
    """Name, memory, cache, driver and versions."""
    import torch

    product, total, cache, driver = _host()
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        product, total = properties.name, properties.total_memory
        cache, driver = properties.L2_cache_size, _nvidia("driver_version")
    elif device.type == "mps":
        total, driver = torch.mps.recommended_max_memory(), platform.mac_ver()[0]
    else:  # engines of one thread and of all are two machines
        threads = torch.get_num_threads()
        product += f" ({threads} thread{'s' if threads > 1 else ''})"
    return DeviceFacts(
        kind=_KINDS[device.type],
        product=product,
        total_bytes=total,
        cache_bytes=cache,
        driver=driver,
        num_threads=torch.get_num_threads(),
        versions={"python": platform.python_version(), **_versions()},
    )


def clock_state(device: torch.device) -> str:
    """Clock and temperature as the driver tells them; empty where nothing tells."""
    if device.type != "cuda":
        return ""
    return _nvidia("clocks.sm,clocks.mem,temperature.gpu,power.draw")


def _host() -> tuple[str, int, int, str]:
    """CPU: name, memory, last-level cache, kernel."""
    import os

    product = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                product = line.partition(":")[2].strip()
                break
    sizes = [
        int(path.read_text("utf-8").strip().removesuffix("K")) << 10
        for path in Path(_CACHES).glob("index*/size")
    ]
    cache = max(sizes, default=_CACHE_BYTES_WHERE_UNKNOWN)
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return product, total, cache, platform.release()


def _nvidia(query: str) -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    done = subprocess.run(
        [program, f"--query-gpu={query}", "--format=csv,noheader", "--id=0"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()


def _versions() -> dict[str, str]:
    found = {}
    for package in (*_PACKAGES, "kvsim"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
