"""Whether FlexAttention can be measured beside kvsim's own kernels on a device."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

    from kvsim.calibrate.measure.bench import Bench
    from kvsim.calibrate.measure.points import Point
    from kvsim.calibrate.measure.timing import Timer

_MODULE: Final = "torch.nn.attention.flex_attention"


def flex_missing(point: Point, bench: Bench, timer: Timer, device: torch.device) -> str:
    """Why ``point`` cannot be measured here; empty where it can.

    Tries one call, which compiles it (seconds): a comparison must never end a calibration.
    """
    if device.type != "cuda":
        return "without CUDA it is not compiled"
    if find_spec(_MODULE) is None:
        return f"this torch has no {_MODULE}"
    try:
        timer.runners(bench.workload(point))[0]()
    except Exception as error:  # whatever a compiler raises
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"[:200]
    return ""
