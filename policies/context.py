"""What every policy is built with: the engine's options, the seed and the cost model."""

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
    """The true lengths, only for policies that declare ``uses_oracle``."""

    def num_outputs(self, index: int) -> int:
        """Return the number of output tokens that a request will have at its end."""
        ...

    def num_slots(self, index: int) -> int:
        """Return the number of tokens whose KV a request will have computed at its end."""
        ...


class Future(Protocol):
    """The requests still to come, only for policies that declare ``uses_oracle``."""

    def next_use(self, key: Hashable, after: int) -> int | None:
        """Return the first request after ``after``, in trace order, that looks up block ``key``.

        The result is ``None`` if no later request looks it up.
        """
        ...


class WorkCost(Protocol):
    """Step times in picoseconds, by the run's cost model, for work that runs alone."""

    def prefill_ps(self, num_tokens: int, past: int) -> int:
        """Return the time of one step that computes ``num_tokens`` prompt tokens after ``past``."""
        ...

    def decode_ps(self, num_tokens: int, context: int) -> int:
        """Return the time of ``num_tokens`` decode steps of one sequence.

        The first step has ``context`` tokens of context.
        """
        ...


class HostLink(Protocol):
    """The link between device and host memory, by the run's cost model."""

    def copy_ps(self, num_blocks: int) -> int:
        """Return the picoseconds to copy ``num_blocks`` blocks in one direction."""
        ...


def nothing_cached(_sequence: Sequence) -> int:
    """Return 0: there is no allocator yet, or the allocator caches nothing."""
    return 0


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """The engine's options, and what a policy may ask for besides the sequences that it gets.

    ``seed`` is the seed of the run. A policy that draws random numbers makes its own generator from
    it. ``cost`` is ``None`` where no engine runs (untimed replays). ``link`` is ``None`` where
    nothing is swapped. ``truth`` and ``future`` are ``None`` for a policy that does not declare
    ``uses_oracle``. ``cached_tokens`` returns the leading tokens of a waiting sequence that the
    cache holds now; it changes nothing. Policies that are built before the allocator do not have
    it.
    """

    config: SchedulerConfig
    predictor: LengthPredictor = field(default_factory=NoPrediction)
    cost: WorkCost | None = None
    link: HostLink | None = None
    seed: int = 0
    truth: LengthTruth | None = None
    future: Future | None = None
    cached_tokens: Callable[[Sequence], int] = nothing_cached
