"""Numbers of each request of a finished run as numpy columns.

Times are integers in picoseconds since the zero of the trace; the methods return seconds. Columns
are views of the recorder's arrays, so that they take no memory.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.recording.recorder import FINISHED, NEVER_PS
from kvsim.traces.common.quantities import PS_PER_NS, PS_PER_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.sim.recording.recorder import Recorder
    from kvsim.traces.trace.trace import Trace

STATUS_NAMES: Final = ("unfinished", "finished", "refused", "aborted", "not sent")
"""Name of each status code of :mod:`kvsim.sim.recording.recorder`."""


@dataclass(frozen=True, slots=True)
class RequestColumns:
    """Columns with one entry for each request, in trace order; a time is -1 until it happens.

    ``output_tokens`` counts the tokens of the longest sample, ``further_tokens`` those of the other
    samples. ``num_prompts`` counts how often the prompt was admitted: once, or once for each sample
    that is a request of its own.
    """

    arrival_ps: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    status: NDArray[np.int8]
    first_scheduled_ps: NDArray[np.int64]
    first_token_ps: NDArray[np.int64]
    finish_ps: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    hit_tokens: NDArray[np.int64]
    preemptions: NDArray[np.int64]
    lost_tokens: NDArray[np.int64]
    resume_hit_tokens: NDArray[np.int64]
    stall_ps: NDArray[np.int64]
    further_tokens: NDArray[np.int64]
    num_prompts: NDArray[np.int64]

    @staticmethod
    def of(trace: Trace, recorder: Recorder) -> RequestColumns:
        """Return the columns of a run; O(n)."""

        def view(name: str) -> NDArray[np.int64]:
            return np.asarray(getattr(recorder, name), dtype=np.int64)

        return RequestColumns(
            arrival_ps=(
                trace.arrival_ns * PS_PER_NS
                if recorder.arrival_ps is None
                else np.asarray(recorder.arrival_ps, dtype=np.int64)
            ),
            prompt_tokens=trace.prompt_tokens,
            status=np.asarray(recorder.status, dtype=np.int8),
            first_scheduled_ps=view("first_scheduled_ps"),
            first_token_ps=view("first_token_ps"),
            finish_ps=view("finish_ps"),
            output_tokens=view("output_tokens"),
            hit_tokens=view("hit_tokens"),
            preemptions=view("preemptions"),
            lost_tokens=view("lost_tokens"),
            resume_hit_tokens=view("resume_hit_tokens"),
            stall_ps=view("stall_ps"),
            further_tokens=view("further_tokens"),
            num_prompts=(
                (view("first_scheduled_ps") >= 0).astype(np.int64)
                if recorder.num_prompts is None
                else view("num_prompts")
            ),
        )

    def part(self, start: int, stop: int | None) -> RequestColumns:
        """Return views of the columns of the requests ``[start, stop)``."""
        return RequestColumns(*(getattr(self, item.name)[start:stop] for item in fields(self)))

    def __len__(self) -> int:
        return len(self.arrival_ps)

    def finished(self) -> NDArray[np.bool_]:
        """Return a mask of the finished requests."""
        return np.equal(self.status, FINISHED)

    def generated_tokens(self) -> NDArray[np.int64]:
        """Return the output tokens of all samples."""
        return self.output_tokens + self.further_tokens

    def arrival_s(self) -> NDArray[np.float64]:
        """Return when the request arrived in the engine; nan if it was never sent."""
        return _seconds(self.arrival_ps, self.arrival_ps < NEVER_PS)

    def queue_s(self) -> NDArray[np.float64]:
        """Return the time from arrival to the first step of the request; nan without one."""
        return _seconds(self.first_scheduled_ps - self.arrival_ps, self.first_scheduled_ps >= 0)

    def ttft_s(self) -> NDArray[np.float64]:
        """Return the time from arrival to the end of the first sampling step; nan without one."""
        return _seconds(self.first_token_ps - self.arrival_ps, self.first_token_ps >= 0)

    def e2e_s(self) -> NDArray[np.float64]:
        """Return the time from arrival to the end of the last step; nan if it did not finish."""
        return _seconds(self.finish_ps - self.arrival_ps, self.finished())

    def tpot_s(self) -> NDArray[np.float64]:
        """Return ``(E2E - TTFT) / (n - 1)``; nan for n = 1 and if the request did not finish."""
        defined = self.finished() & (self.output_tokens > 1)
        gaps = np.maximum(self.output_tokens - 1, 1)
        return _seconds(self.finish_ps - self.first_token_ps, defined) / gaps

    def normalised_s(self) -> NDArray[np.float64]:
        """Return E2E latency by output tokens; nan if the request did not finish."""
        return self.e2e_s() / np.maximum(self.output_tokens, 1)


def _seconds(duration_ps: NDArray[np.int64], defined: NDArray[np.bool_]) -> NDArray[np.float64]:
    return np.where(defined, duration_ps / PS_PER_S, np.nan)
