"""Cards: memory, bandwidth, peak rates.

The main function is :func:`~kvsim.sim.hardware.load.load_hardware`. Bundled cards are in
``cards.json``.
"""

from __future__ import annotations

from kvsim.sim.hardware.load import bundled_hardware, load_hardware
from kvsim.sim.hardware.spec import GIB, HardwareSpec, server_defaults

__all__ = ["GIB", "HardwareSpec", "bundled_hardware", "load_hardware", "server_defaults"]
