"""One accelerator: memory as its driver reports it, bandwidth, peak rates, links."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

GIB = 1 << 30
LARGE_CARD_BYTES = 70 * GIB
_FALLBACK = {"bf16": ("fp16", "fp32"), "fp16": ("bf16", "fp32")}


@dataclass(frozen=True, slots=True)
class HardwareSpec:
    """A card. ``total_bytes`` is what the driver reports (GiB, not the GB on the box).

    ``peak_flop_per_s`` holds dense rates by dtype (no sparsity). ``link_bytes_per_s`` is the link
    to another card, and ``host_link_bytes_per_s`` the link to host memory, each in one direction (0
    = none).
    """

    name: str
    product: str
    kind: str
    """``gpu``, ``apple`` or ``cpu``."""
    total_bytes: int
    bandwidth_bytes_per_s: float
    peak_flop_per_s: Mapping[str, float]
    link: str
    link_bytes_per_s: float
    host_link_bytes_per_s: float
    source: str
    profile: str = ""
    """File of step costs that the card was read from; ``cost.source = "auto"`` uses it."""

    @property
    def total_gib(self) -> float:
        """Memory in GiB."""
        return self.total_bytes / GIB

    def peak(self, dtype: str) -> float:
        """Dense peak in FLOP/s for products in ``dtype``.

        If the card has no units for a dtype, the next wider one is used (bf16 for fp8, fp16 for
        bf16, the model's 16 bits for 4-bit weights). If no dtype fits, ``ValueError`` is raised.
        """
        for candidate in (dtype, *_FALLBACK.get(dtype, ("bf16", "fp16", "fp32"))):
            if candidate in self.peak_flop_per_s:
                return self.peak_flop_per_s[candidate]
        raise ValueError(
            f"{self.name} has no peak rate for {dtype!r}; it has {', '.join(self.peak_flop_per_s)}"
        )

    def check(self) -> None:
        """Raise ``ValueError`` with the name of a wrong number (zero, negative, not finite)."""
        rates = {"bandwidth_bytes_per_s": self.bandwidth_bytes_per_s, **self.peak_flop_per_s}
        for key, value in {"total_bytes": self.total_bytes, **rates}.items():
            if not math.isfinite(value) or value <= 0:
                raise ValueError(f"hardware {self.name}: {key}={value} must be > 0")


def server_defaults(hardware: HardwareSpec) -> tuple[int, int]:
    """``(max_num_seqs, max_num_batched_tokens)``: the defaults of vLLM 0.32.0's API server.

    GPUs of 70 GiB and more, except A100, have 1024 and 8192; all others 256 and 2048
    (``EngineArgs.get_batch_defaults``).
    """
    large = hardware.kind == "gpu" and hardware.total_bytes >= LARGE_CARD_BYTES
    if large and "a100" not in hardware.product.lower():
        return 1024, 8192
    return 256, 2048
