"""The real decoder under our own scheduler: a step is run when it is scheduled.

A :class:`LocalDecoder` listens to a stepper. At each scheduling call it runs the step on the device
with the block tables that the allocator just filled, and ends the step when the device was done: so
the stepper's clock is the device's. Everything else (chunks, blocks, preemptions, metrics) is the
simulator's own code.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kvsim.policies.allocators.paged import PagedAllocator
from kvsim.sim.schedule_listener import ScheduleListener

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from kvsim.kernels.decoder import Decoder
    from kvsim.sim.flights import Flight, FlightItem
    from kvsim.sim.stepper import Stepper

PS_PER_NS = 1000


class StepDurations(ScheduleListener):
    """Listens to how long steps last: ``durations_ps``, one a step."""

    def __init__(self) -> None:
        self.durations_ps: list[int] = []

    def called(self, stepper: Stepper, flight: Flight) -> None:
        """Note the step."""
        self.durations_ps.append(flight.end_ps - flight.start_ps)


class LocalDecoder(StepDurations):
    """Runs every step; greedy, so the same texts come out however the steps are cut.

    ``texts``: per request its prompt and what was sampled so far. ``durations_ps`` and
    ``expected_ps``: of each step, by the device and by the stepper's cost. ``anchors_us``: what
    ``read_anchor_us`` gave before the first step and after each; no clock counts the reading.
    """

    def __init__(
        self,
        decoder: Decoder,
        prompts: list[torch.Tensor],
        *,
        synchronize: Callable[[], object] = int,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
        read_anchor_us: Callable[[], float] = float,
    ) -> None:
        super().__init__()
        self._decoder = decoder
        self.texts = list(prompts)
        self._synchronize = synchronize
        self._clock_ns = clock_ns
        self._read_anchor_us = read_anchor_us
        self.expected_ps: list[int] = []
        self.anchors_us: list[float] = []

    def called(self, stepper: Stepper, flight: Flight) -> None:
        """Run the step, and let it end when the device was done."""
        assert not stepper.config.async_scheduling, (
            "the results of a step are needed before the next call"
        )
        if not self.anchors_us:
            self.anchors_us.append(self._read_anchor_us())
        self.expected_ps.append(flight.end_ps - flight.start_ps)
        flight.end_ps = flight.start_ps + self._run(stepper, flight.items)
        self.anchors_us.append(self._read_anchor_us())
        super().called(stepper, flight)

    def _run(self, stepper: Stepper, items: list[FlightItem]) -> int:
        """Duration of the step in ps; sampled tokens go to the texts."""
        import torch

        from kvsim.kernels.decoder import SequenceInput
        from kvsim.kernels.small_ops import sample

        allocator = stepper.state.allocator
        assert isinstance(allocator, PagedAllocator), "the decoder's cache is paged"
        tables = allocator.groups[0].tables
        batch = []
        for item in items:
            index = item.sequence.index
            blocks = [block.id for block in tables[index]]
            table = torch.tensor(blocks, dtype=torch.int32, device=self._decoder.device)
            tokens = self.texts[index][item.past : item.past + item.num_tokens]
            batch.append(SequenceInput(tokens, item.past, table))
        self._synchronize()
        start_ns = self._clock_ns()
        chosen = sample(self._decoder.step(batch), 0, None)
        self._synchronize()
        duration_ns = self._clock_ns() - start_ns
        for row, item in enumerate(items):
            if item.samples:
                index = item.sequence.index
                self.texts[index] = torch.cat((self.texts[index], chosen[row : row + 1]))
        return duration_ns * PS_PER_NS
