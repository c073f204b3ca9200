"""How many bytes a weight or a KV value takes, scales included.

Formats with group scales are exact rationals, so that payload and scale overhead stay apart and no
byte count ever goes through a float. Sources: IEEE and OCP formats for the plain ones; ``q8_0`` and
``q4_0`` are ggml's blocks of 32 values with one fp16 scale; ``int4`` weights are AWQ / GPTQ with
groups of 128, one fp16 scale and one 4-bit zero point a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kvsim.traces.common.names import unknown


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """Storage of one number: payload bits, and scale bits for every ``group`` numbers.

    ``group`` 0 means that the scale belongs to one (token, head) pair and its bits are added per
    pair, whatever the head size.
    """

    name: str
    payload_bits: int
    scale_bits: int = 0
    group: int = 0

    def payload_bytes(self, num_values: int) -> Fraction:
        """Bytes of ``num_values`` numbers without their scales."""
        return Fraction(num_values * self.payload_bits, 8)

    def scale_bytes(self, num_values: int, num_heads: int = 0) -> Fraction:
        """Bytes of the scales of ``num_values`` numbers that lie in ``num_heads`` heads."""
        if self.group:
            return Fraction(num_values * self.scale_bits, self.group * 8)
        return Fraction(num_heads * self.scale_bits, 8)

    def bytes_of(self, num_values: int, num_heads: int = 0) -> Fraction:
        """Payload and scales together."""
        return self.payload_bytes(num_values) + self.scale_bytes(num_values, num_heads)


_PLAIN = (
    ValueFormat("bf16", 16),
    ValueFormat("fp16", 16),
    ValueFormat("fp32", 32),
    ValueFormat("fp8", 8),
    ValueFormat("int8", 8),
)
KV_FORMATS = {
    form.name: form
    for form in (
        *_PLAIN,
        ValueFormat("fp8_per_head", 8, scale_bits=32),
        ValueFormat("int8_per_head", 8, scale_bits=32),
        ValueFormat("fp8_ds_mla", 8),
        ValueFormat("int4", 4),
        ValueFormat("int4_per_head", 4, scale_bits=32),
        ValueFormat("q8_0", 8, scale_bits=16, group=32),
        ValueFormat("q4_0", 4, scale_bits=16, group=32),
    )
}
"""KV cache formats by name; ``fp8``, ``int8`` and ``int4`` are payload only (per-tensor scales).

``fp8_ds_mla`` (DeepSeek's latent: 512 fp8 values, four fp32 scales, 64 rope values in 16 bits = 656
bytes) has a layout of its own in :class:`kvsim.sim.models.spec.LayerGroup`.
"""

WEIGHT_FORMATS = {
    form.name: form
    for form in (
        *_PLAIN,
        ValueFormat("int4", 4, scale_bits=20, group=128),
        ValueFormat("mxfp4", 4, scale_bits=8, group=32),
    )
}
"""Weight formats by name; quantised ones apply to linear layers, not to embeddings and norms."""

_ALIASES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "float8_e4m3fn": "fp8",
}


def find_format(name: str, formats: dict[str, ValueFormat], what: str) -> ValueFormat:
    """Return the format called ``name`` (``bfloat16`` and the like are understood).

    Raises ``ValueError`` with the choices when there is none.
    """
    key = _ALIASES.get(name.lower(), name.lower())
    if key in formats:
        return formats[key]
    raise ValueError(unknown(what, name, formats))


def kv_format(name: str) -> ValueFormat:
    """KV cache format by name."""
    return find_format(name, KV_FORMATS, "KV dtype")


def weight_format(name: str) -> ValueFormat:
    """Weight format by name."""
    return find_format(name, WEIGHT_FORMATS, "weight dtype")
