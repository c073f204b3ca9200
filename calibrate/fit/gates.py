"""How good a fit must be: absolute error on unseen points, median and 90th percentile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from kvsim.sim.cost.profile import HoldOut


class Gate(NamedTuple):
    """Largest errors, as fractions."""

    median: float
    p90: float

    def passed(self, found: HoldOut) -> bool:
        """Whether both errors are within the gate."""
        return found.median <= self.median and found.p90 <= self.p90


_GATES: Final = {
    "decode_step": Gate(0.05, 0.10),
    "decode_attention": Gate(0.05, 0.20),
    "layer": Gate(0.05, 0.20),
    "prefill_attention": Gate(0.05, 0.20),
    "experts": Gate(0.05, 0.20),
}
_L40S_PREFILL: Final = Gate(0.09, 0.30)


def gate_of(block: str, card: str) -> Gate | None:
    """Gate of a block of :attr:`kvsim.sim.cost.profile.Profile.hold_out`.

    ``None`` where none is set.
    """
    if (block, card) == ("prefill_attention", "l40s"):
        return _L40S_PREFILL
    return _GATES.get(block)
