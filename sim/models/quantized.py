"""Format of a checkpoint's linear layers, from its ``quantization_config``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvsim.sim.models.reader import ConfigReader

_BY_BITS = {4: "int4", 8: "int8", 16: ""}


def checkpoint_format(config: ConfigReader) -> tuple[str, tuple[str, ...]]:
    """``(format, notices)``; the format is empty if no format is given or known."""
    section = config.section("quantization_config")
    if section is None:
        return "", ()
    method = section.text("quant_method")
    if method in ("fp8", "fbgemm_fp8"):
        return "fp8", ()
    if method == "mxfp4":
        return "mxfp4", ("the experts are stored as mxfp4, everything else in the model's dtype",)
    bits = section.optional_size("bits", "w_bit")
    if method in ("gptq", "awq", "auto-round") and bits in _BY_BITS:
        return _BY_BITS[bits], ()
    return "", (
        f"quantization {method or 'without a quant_method'} is not understood: weights are counted"
        " in the model's dtype",
    )
