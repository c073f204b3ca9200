"""The cost of a step: the protocol that engines use, and the linear source.

All coefficients are integers (picoseconds), rounded once when a cost is built. So a leap of k
decode steps costs exactly the sum of its steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

_new: Final = tuple.__new__  # a named tuple's own constructor takes twice as long


class StepTime(NamedTuple):
    """Duration of a step, and its parts (see :mod:`kvsim.sim.recording.step_parts`).

    The rest of the duration is attention of decodes. ``inside``: whether the step is inside the
    measured range of the cost source. ``overhead_ps``: time besides the device's work. For a
    synchronous engine this is the host part. For an asynchronous one it is the part of it that the
    device does not hide.
    """

    duration_ps: int
    inside: bool
    weights_ps: int
    prefill_ps: int
    overhead_ps: int

    def with_overhead(self, duration_ps: int) -> StepTime:
        """Return the time of a step that lasts ``duration_ps``, the rest of it overhead."""
        further_ps = duration_ps - self.duration_ps
        return self._replace(duration_ps=duration_ps, overhead_ps=self.overhead_ps + further_ps)


NO_STEP: Final = StepTime(0, True, 0, 0, 0)
"""The time of an empty step."""


class DecodeRun(NamedTuple):
    """Decode steps with a fixed batch: step ``j`` lasts ``first_ps + slope_ps * j``.

    Valid for ``num_steps`` steps (``None`` = without end). ``inside``: whether all of them are
    inside the measured range of the cost source. Each has ``weights_ps``, and step ``j`` has
    ``overhead_ps + overhead_slope_ps * j``; the rest is attention.
    """

    first_ps: int
    slope_ps: int
    num_steps: int | None
    inside: bool
    weights_ps: int
    overhead_ps: int
    overhead_slope_ps: int = 0


class StepCost(Protocol):
    """Step durations of one engine replica.

    ``overlap`` (asynchronous scheduling) is fixed when a cost is built: a synchronous engine pays
    host + device, an asynchronous one the larger of the two.
    """

    @property
    def name(self) -> str:
        """Source shown in outputs, e.g. ``linear`` or ``h100-sxm (fitted)``."""
        ...

    def step(
        self,
        prefills: Sequence[tuple[int, int]],
        num_decodes: int,
        context: int,
        window_contexts: Sequence[int] = (),
    ) -> StepTime:
        """Duration of one step, its parts, and whether it lies inside the measured range.

        ``prefills``: ``(chunk, past)`` in tokens, one pair a request in prefill or recomputation.
        ``num_decodes`` requests add one token each; ``context`` is the sum of their contexts, this
        token included. ``window_contexts``: the same sum with each context cut to the window, one
        entry a sliding-window KV group. A step with nothing in it lasts 0.
        """
        ...

    def copy_ps(self, num_tokens: int) -> int:
        """Duration in ps of copying the KV of ``num_tokens`` tokens within the pool.

        Proportional to the tokens. It is added to the step of the scheduling call that needs the
        copy.
        """
        ...

    def decode_run(self, num_decodes: int, context: int) -> DecodeRun:
        """Describe steps of ``num_decodes`` >= 1 decodes, the first with ``context`` in sum.

        The context grows by ``num_decodes`` each step. Step ``j`` lasts exactly what
        ``step((), num_decodes, context + j * num_decodes)`` says, with the same parts.
        """
        ...


@dataclass(frozen=True, slots=True)
class LinearCost:
    """Numbers given by hand: ``base + prefill tokens + decodes + context of all items`` (ps).

    The form of the golden logs and of the theory tests; exact in integers. The parts follow the
    terms: tokens and context of prefills, context of decodes. Base and decodes are overhead,
    because the numbers do not separate the weights from it.
    """

    base_ps: int
    per_prefill_token_ps: int = 0
    per_decode_seq_ps: int = 0
    per_context_token_ps: int = 0
    per_copied_token_ps: int = 0
    name: str = "linear"

    def step(
        self,
        prefills: Sequence[tuple[int, int]],
        num_decodes: int,
        context: int,
        window_contexts: Sequence[int] = (),
    ) -> StepTime:
        """See :class:`StepCost`."""
        if not prefills and not num_decodes:
            return NO_STEP
        tokens = reach = 0
        for chunk, past in prefills:
            tokens += chunk
            reach += chunk + past
        prefill_ps = self.per_prefill_token_ps * tokens + self.per_context_token_ps * reach
        overhead_ps = self.base_ps + self.per_decode_seq_ps * num_decodes
        total_ps = overhead_ps + prefill_ps + self.per_context_token_ps * context
        return _new(StepTime, (total_ps, True, 0, prefill_ps, overhead_ps))

    def copy_ps(self, num_tokens: int) -> int:
        """See :class:`StepCost`."""
        return self.per_copied_token_ps * num_tokens

    def decode_run(self, num_decodes: int, context: int) -> DecodeRun:
        """See :class:`StepCost`."""
        overhead_ps = self.base_ps + self.per_decode_seq_ps * num_decodes
        first_ps = overhead_ps + self.per_context_token_ps * context
        slope_ps = self.per_context_token_ps * num_decodes
        return _new(DecodeRun, (first_ps, slope_ps, None, True, 0, overhead_ps, 0))
