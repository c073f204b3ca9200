"""The real decoder under our own scheduler: a step is run when it is scheduled.

A :class:`LocalDecoder` listens to a stepper. At each scheduling call it runs the step on the device
with the block tables that the allocator just filled, and ends the step when the device was done: so
the stepper's clock is the device's. Everything else (chunks, blocks, preemptions, metrics) is the
simulator's own code.

A step that a slower machine ran (:mod:`kvsim.calibrate.measure.anchor`) is run again, as its inputs
are still there and what it writes is the same: the clock is that of the machine at its best.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from kvsim.policies.allocators.paged import PagedAllocator
from kvsim.sim.engine.listener import ScheduleListener
from kvsim.traces.common.quantities import PS_PER_NS

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from kvsim.calibrate.measure.anchor import Anchor
    from kvsim.kernels.decoder import Decoder, SequenceInput
    from kvsim.sim.engine.stepper import Stepper
    from kvsim.sim.engine.steps_in_flight import StepInFlight, StepItem

PATIENCE_S: Final = 120.0
"""So long, over all steps, slow ones are run again; those after it are taken as they come."""


class StepDurations(ScheduleListener):
    """Listens to how long steps last: ``durations_ps``, one a step."""

    def __init__(self) -> None:
        self.durations_ps: list[int] = []

    def called(self, stepper: Stepper, flight: StepInFlight) -> None:
        """Note the step."""
        self.durations_ps.append(flight.end_ps - flight.start_ps)


class LocalDecoder(StepDurations):
    """Runs every step; greedy, so the same texts come out however the steps are cut.

    ``texts``: per request its prompt and what was sampled so far. ``durations_ps`` and
    ``expected_ps``: of each step, by the device and by the stepper's cost. ``anchors_us``: of each
    step, the slower of the ``anchor``'s readings before and after it, which no clock counts; 0
    without an anchor. ``num_again``: runs of steps that a slower machine ran and that do not count.
    """

    def __init__(
        self,
        decoder: Decoder,
        prompts: list[torch.Tensor],
        *,
        synchronize: Callable[[], object] = int,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
        anchor: Anchor | None = None,
    ) -> None:
        super().__init__()
        self._decoder = decoder
        self.texts = list(prompts)
        self._synchronize = synchronize
        self._clock_ns = clock_ns
        self._anchor = anchor
        self._lost_ns = 0
        self.expected_ps: list[int] = []
        self.anchors_us: list[float] = []
        self.num_again = 0

    def called(self, stepper: Stepper, flight: StepInFlight) -> None:
        """Run the step, and let it end when the device was done."""
        import torch

        assert not stepper.config.async_scheduling, (
            "the results of a step are needed before the next call"
        )
        self.expected_ps.append(flight.end_ps - flight.start_ps)
        batch = self._batch(stepper, flight.items)
        while True:
            start_ns = self._clock_ns()
            before_us = self._read_us()
            chosen, duration_ns = self._run(batch)
            anchor_us = max(before_us, self._read_us())
            steady = self._anchor is None or self._anchor.is_steady(anchor_us)
            if steady or self._lost_ns > PATIENCE_S * 1e9:
                break
            self.num_again += 1
            self._lost_ns += self._clock_ns() - start_ns
        self.anchors_us.append(anchor_us)
        for row, item in enumerate(flight.items):
            if item.samples:
                index = item.sequence.index
                self.texts[index] = torch.cat((self.texts[index], chosen[row : row + 1]))
        flight.end_ps = flight.start_ps + duration_ns * PS_PER_NS
        super().called(stepper, flight)

    def _read_us(self) -> float:
        return 0.0 if self._anchor is None else self._anchor.read_us()

    def _run(self, batch: list[SequenceInput]) -> tuple[torch.Tensor, int]:
        """Sampled tokens of the step, and its duration in ns."""
        from kvsim.kernels.small_ops import sample

        self._synchronize()
        start_ns = self._clock_ns()
        chosen = sample(self._decoder.step(batch), 0, None)
        self._synchronize()
        return chosen, self._clock_ns() - start_ns

    def _batch(self, stepper: Stepper, items: list[StepItem]) -> list[SequenceInput]:
        import torch

        from kvsim.kernels.decoder import SequenceInput

        allocator = stepper.state.allocator
        assert isinstance(allocator, PagedAllocator), "the decoder's cache is paged"
        tables = allocator.groups[0].tables
        batch = []
        for item in items:
            index = item.sequence.index
            blocks = [block.id for block in tables[index]]
            table = torch.tensor(blocks, dtype=torch.int32)
            tokens = self.texts[index][item.past : item.past + item.num_tokens]
            batch.append(SequenceInput(tokens, item.past, table))
        return batch
