"""What a policy is built with, whatever its kind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kvsim.policies.predictor.no_prediction import NoPrediction

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from kvsim.policies.predictor.base import LengthPredictor
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.policies.sequence import Sequence


class LengthTruth(Protocol):
    """The true lengths, for policies that declare ``uses_oracle`` and nobody else."""

    def num_outputs(self, index: int) -> int:
        """Tokens that a request will have generated when it ends."""
        ...

    def num_slots(self, index: int) -> int:
        """Tokens of KV that a request will have computed when it ends."""
        ...


class Future(Protocol):
    """The requests to come, for policies that declare ``uses_oracle`` and nobody else."""

    def next_use(self, key: Hashable, after: int) -> int | None:
        """First request behind ``after``, in the order of the trace, that looks a block up.

        ``key`` is the block's; ``None`` where no request does.
        """
        ...


class WorkCost(Protocol):
    """Durations in picoseconds, as the run's cost model tells them for work done alone."""

    def prefill_ps(self, num_tokens: int, past: int) -> int:
        """One step that computes ``num_tokens`` prompt tokens after ``past`` computed ones."""
        ...

    def decode_ps(self, num_tokens: int, context: int) -> int:
        """``num_tokens`` decode steps of one sequence, the first of them over ``context``."""
        ...


class HostLink(Protocol):
    """The way between device and host memory, as the run's cost model has it."""

    def copy_ps(self, num_blocks: int) -> int:
        """Picoseconds that so many blocks take in one direction."""
        ...


def nothing_cached(_sequence: Sequence) -> int:
    """No allocator is there yet, or it caches nothing."""
    return 0


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """The engine's options, and what a policy may ask beside the sequences it is shown.

    ``seed`` is the run's; a policy that draws makes its own generator of it. ``cost`` is ``None``
    where no engine runs (untimed replays), ``link`` where nothing is swapped; ``truth`` and
    ``future`` are ``None`` for who does not declare ``uses_oracle``. ``cached_tokens`` tells the
    leading tokens of a waiting sequence that the cache holds now, changing nothing; what is built
    before the allocator does not have it.
    """

    config: SchedulerConfig
    predictor: LengthPredictor = field(default_factory=NoPrediction)
    cost: WorkCost | None = None
    link: HostLink | None = None
    seed: int = 0
    truth: LengthTruth | None = None
    future: Future | None = None
    cached_tokens: Callable[[Sequence], int] = nothing_cached
