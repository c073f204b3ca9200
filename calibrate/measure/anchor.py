"""The anchor: work that is always the same, read beside repeats to tell a machine that is slower.

On a CPU it is a matrix product by all threads, small enough for the cache, into its own memory.
Two virtual CPUs that the host puts on the two hardware threads of one core have half of its
arithmetic units each: all threads together then take 1.9 times as long, both busy and none of the
time reported as stolen, while one thread alone is hardly slower. (An inference from just that, seen
on a machine of two virtual CPUs for 12 % of the time in stretches of 0.2 to 3.4 s.) So the anchor
takes all threads, and is read around every single repeat.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.calibrate.measure.timing import TimingRule, Workload

if TYPE_CHECKING:
    import torch

    from kvsim.calibrate.measure.timing import Timer

MAX_DRIFT: Final = 0.1
"""What is allowed unless said otherwise."""
REFERENCE_S: Final = 1.0
"""How long calls are timed for a reference."""
_REFERENCE_QUANTILE: Final = 0.1
"""Low, so that the reference is right though nine tenths of that time were slow."""
_CPU_SIZE: Final = 305
"""Rows of the product for one thread; more by the cube root of threads: 0.3 to 0.6 ms for any."""
_GPU_SIZE: Final = 2048


@dataclass(frozen=True, slots=True)
class AnchorRule:
    """A reading ends with the first steady call, or with ``calls``; ``every`` so many repeats."""

    calls: TimingRule
    every: int


CPU_RULE: Final = AnchorRule(TimingRule(repeats=3, budget_s=0.0, min_repeats=3), every=1)
"""Three: the first call may find its numbers out of the cache, the second be interrupted."""
GPU_RULE: Final = AnchorRule(TimingRule(repeats=100_000, budget_s=0.3), every=5)
"""Longer: large products lower a GPU's clock by the power they draw, which is theirs and no drift.
Between calls it rests and comes back within the budget; a drift does not."""


class Anchor:
    """Reads the anchor and judges: steady is what is within ``max_drift`` of ``reference_us``.

    ``max_drift``: 0.1 is 10 %. ``reference_us``: one call on the machine as it should be, us;
    infinite until :meth:`take_reference`, and never higher than it was.
    """

    def __init__(
        self,
        workload: Workload,
        timer: Timer,
        rule: AnchorRule,
        max_drift: float,
        reference_us: float = math.inf,
    ) -> None:
        self.rule = rule
        self.max_drift = max_drift
        self.reference_us = reference_us
        self._timer = timer
        self._run = timer.runners(workload)[0]

    def take_reference(self) -> None:
        """Low quantile of what calls take for ``REFERENCE_S``, where that is less than before."""
        end_s = self._timer.now_s() + REFERENCE_S
        times = [self._run()]
        while self._timer.now_s() < end_s:
            times.append(self._run())
        found_us = float(np.quantile(times, _REFERENCE_QUANTILE))
        self.reference_us = min(self.reference_us, found_us)

    def read_us(self) -> float:
        """First steady call, else the fastest of the rule's.

        A call faster than steady says that the reference was a slower machine's: it is taken anew.
        """
        start_s = self._timer.now_s()
        times: list[float] = []
        while self.rule.calls.goes_on(len(times), self._timer.now_s() - start_s):
            times.append(self._run())
            if self.drift(times[-1]) <= self.max_drift:
                break
        if self.drift(min(times)) < -self.max_drift:
            self.take_reference()
        return min(times)

    def drift(self, us: float) -> float:
        """By how much a reading is longer than the reference; 0.1 is 10 %."""
        return us / self.reference_us - 1

    def is_steady(self, us: float) -> bool:
        """Whether a reading is within ``max_drift`` of the reference."""
        return abs(self.drift(us)) <= self.max_drift


def anchor_rule(device: torch.device) -> AnchorRule:
    """Rule of a device."""
    return CPU_RULE if device.type == "cpu" else GPU_RULE


def anchor_workload(device: torch.device, dtype: torch.dtype) -> Workload:
    """One matrix product: on a CPU float32 in cache by all threads, else of ``dtype``.

    Its result has its own memory: one that is allocated anew takes page faults in some processes.
    """
    import torch

    on_cpu = device.type == "cpu"
    size = round(_CPU_SIZE * torch.get_num_threads() ** (1 / 3)) if on_cpu else _GPU_SIZE
    rng = torch.Generator().manual_seed(0)
    left, right = (
        torch.randn(size, size, generator=rng).to(device, torch.float32 if on_cpu else dtype)
        for _ in range(2)
    )
    out = torch.empty_like(left)
    return Workload([lambda: torch.mm(left, right, out=out)], 0, capturable=True)
