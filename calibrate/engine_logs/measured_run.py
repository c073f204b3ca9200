"""A measured serving run: what was asked, which engine answered, and when tokens came."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.calibrate.engine_logs.step_sample import StepSample


@dataclass(frozen=True, slots=True)
class LoadSeries:
    """What the engine said of itself over time, one entry a sample."""

    time_s: NDArray[np.float64]
    running: NDArray[np.float64]
    waiting: NDArray[np.float64]
    kv_percent: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run; times in seconds since the first arrival, one entry a request in arrival order.

    Attributes
    ----------
    engine
        Options of the engine, named as vLLM names them; empty where the log has none.
    ttft_boundary
        Between which two instants the log measured TTFT, in words.
    first_token_s, last_token_s
        Of each answer, the engine's or the client's clock, as ``ttft_boundary`` says.
    token_times_s
        Of every token, where the log has them.
    shared_prefix_tokens
        Tokens that all prompts have in common, 0 where the log does not say.
    """

    name: str
    source: str
    engine: dict[str, object]
    ttft_boundary: str
    ids: tuple[str, ...]
    arrival_s: NDArray[np.float64]
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    first_token_s: NDArray[np.float64]
    last_token_s: NDArray[np.float64]
    token_times_s: tuple[NDArray[np.float64], ...] | None = None
    steps: tuple[StepSample, ...] = ()
    series: LoadSeries | None = None
    shared_prefix_tokens: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """What the log counted: preemptions, prompt tokens from the cache."""
    scenario: dict[str, str] = field(default_factory=dict)
    """``model.name`` and ``hardware.name`` that the log tells, where kvsim knows them."""

    def __len__(self) -> int:
        return len(self.arrival_s)

    def ttft_s(self) -> NDArray[np.float64]:
        """Time to first token of each request."""
        return self.first_token_s - self.arrival_s

    def e2e_s(self) -> NDArray[np.float64]:
        """Arrival to the last token."""
        return self.last_token_s - self.arrival_s

    def tpot_s(self) -> NDArray[np.float64]:
        """Mean gap between the tokens of an answer; nan for a single token."""
        gaps = np.maximum(self.output_tokens - 1, 1)
        mean = (self.last_token_s - self.first_token_s) / gaps
        return np.where(self.output_tokens > 1, mean, np.nan)

    def itl_s(self) -> NDArray[np.float64] | None:
        """All gaps between tokens, where the log has the times of tokens."""
        if self.token_times_s is None:
            return None
        return np.concatenate([np.diff(times) for times in self.token_times_s])
