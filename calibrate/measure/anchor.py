"""The anchor: work that is always the same, read beside repeats to tell a machine that is slower.

On a CPU it has two halves, by all threads, small enough for the cache and into their own memory.
Two virtual CPUs are where the host puts them, and it moves them for 0.2 s to minutes:

- on one core: each has half of its arithmetic units. A matrix product takes 1.9 times as long.
- on cores without a common cache: what one thread wrote is far for the other. Sums of what the
  other thread wrote take 3 times as long, chains of small kernels and paged attention twice, and
  products, copies and single kernels are as fast as ever.

A lone thread notices neither. (An inference from these times, seen on a machine of two virtual CPUs
with both threads busy and no time reported as stolen.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.calibrate.measure.timing import TimingRule, Workload

if TYPE_CHECKING:
    import torch

    from kvsim.calibrate.measure.timing import Timer

REFERENCE_S: Final = 1.0
"""How long calls are timed for a reference."""
_REFERENCE_QUANTILE: Final = 0.1
"""Low, so that the reference is right though nine tenths of that time were slow."""
_CPU_SIZE: Final = 305
"""Rows of the product for one thread; more by the cube root of threads: 0.3 to 0.6 ms for any."""
_EXCHANGED: Final = 1 << 17
"""Numbers that each thread writes for another one, ``_EXCHANGES`` times: 0.2 ms."""
_EXCHANGES: Final = 4
_GPU_SIZE: Final = 2048
BEST: Final = 0.1
"""Drift below which two readings are the same."""


@dataclass(frozen=True, slots=True)
class AnchorRule:
    """How the anchor is read, ``every`` so many repeats, and how far it may move.

    A reading ends with the first call at the machine's best, or with ``calls``. ``max_drift``: 0.1
    is 10 %; readings within ``BEST`` are of the machine at its best.
    """

    calls: TimingRule
    every: int
    max_drift: float

    def __post_init__(self) -> None:
        if not self.max_drift > 0:
            raise ValueError(f"max_drift is {self.max_drift}; it must be above 0")


CPU_RULE: Final = AnchorRule(
    TimingRule(repeats=12, budget_s=0.0, min_repeats=12), every=1, max_drift=0.25
)
"""Twelve calls: after large work the first ones find caches cold, and take 3 to 16 % longer for a
few ms. A quarter: with other guests' load the clock of a virtual machine wanders by 20 % for tens
of seconds, which is how it is; one core for two threads is 90 %."""
GPU_RULE: Final = AnchorRule(TimingRule(repeats=100_000, budget_s=0.3), every=5, max_drift=0.1)
"""Longer: large products lower a GPU's clock by the power they draw, which is theirs and no drift.
Between calls it rests and comes back within the budget; a drift does not."""


class Anchor:
    """Reads the anchor and judges: steady is what is within the rule's drift of ``reference_us``.

    ``reference_us``: one call on the machine as it should be, us; infinite until
    :meth:`take_reference`, and never higher than it was.
    """

    def __init__(
        self,
        workload: Workload,
        timer: Timer,
        rule: AnchorRule,
        reference_us: float = math.inf,
    ) -> None:
        self.rule = rule
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
        """First call at the machine's best, else the fastest of the rule's.

        One that is faster says that the reference was a slower machine's: it is taken anew.
        """
        start_s = self._timer.now_s()
        times: list[float] = []
        while self.rule.calls.goes_on(len(times), self._timer.now_s() - start_s):
            times.append(self._run())
            if self.is_best(times[-1]):
                break
        if self.drift(min(times)) < -min(BEST, self.rule.max_drift):
            self.take_reference()
        return min(times)

    def drift(self, us: float) -> float:
        """By how much a reading is longer than the reference; 0.1 is 10 %."""
        return us / self.reference_us - 1

    def is_steady(self, us: float) -> bool:
        """Whether a reading is close enough to the reference."""
        return abs(self.drift(us)) <= self.rule.max_drift

    def is_best(self, us: float) -> bool:
        """Whether a reading is as fast as the reference."""
        return self.drift(us) <= min(BEST, self.rule.max_drift)


def anchor_rule(device: torch.device, max_drift: float | None = None) -> AnchorRule:
    """Rule of a device; ``max_drift`` instead of its own."""
    rule = CPU_RULE if device.type == "cpu" else GPU_RULE
    return rule if max_drift is None else replace(rule, max_drift=max_drift)


def anchor_workload(device: torch.device, dtype: torch.dtype) -> Workload:
    """One matrix product; on a CPU in float32 and in cache, and an exchange between threads.

    Results have their own memory: one that is allocated anew takes page faults in some processes.
    """
    import torch

    on_cpu = device.type == "cpu"
    threads = torch.get_num_threads()
    size = round(_CPU_SIZE * threads ** (1 / 3)) if on_cpu else _GPU_SIZE
    rng = torch.Generator().manual_seed(0)
    left, right = (
        torch.randn(size, size, generator=rng).to(device, torch.float32 if on_cpu else dtype)
        for _ in range(2)
    )
    out = torch.empty_like(left)
    if not on_cpu:
        return Workload([lambda: torch.mm(left, right, out=out)], 0, capturable=True)
    numbers = torch.randn(_EXCHANGED * threads, generator=rng)
    written = torch.empty_like(numbers)
    low, high = written.chunk(2)
    sums = torch.empty_like(low)

    def call() -> None:
        torch.mm(left, right, out=out)
        for _ in range(_EXCHANGES):
            written.copy_(numbers)
            torch.add(low, high, out=sums)  # each thread reads a part that another one wrote

    return Workload([call], 0)
