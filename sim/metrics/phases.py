"""Ramp-up, steady part and drain of a run, each with its own rates.

    first arrival        running reaches 90 % of its later mean     last arrival          end
         |------ ramp-up -----------|---------- steady -----------------|------ drain -----|

"Later mean" is the mean number of running requests over the second half of the arrivals' span.
Edges fall on the recorder's windows, except for the first and last arrival and the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.documents import summary as documents
from kvsim.sim.recording.memory_integrals import HOST
from kvsim.sim.recording.recorder import COPYING
from kvsim.sim.recording.waiting_clock import CAUSES, PREEMPTED
from kvsim.traces.common.quantities import PS_PER_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.sim.metrics.request_columns import RequestColumns
    from kvsim.sim.recording.recorder import Recorder

_FULL_SHARE: Final = 0.9


@dataclass(frozen=True, slots=True)
class Windows:
    """Means over each window: running and waiting requests, blocks on the host, copying.

    ``waiting_by_cause`` adds up to ``waiting``. ``preempted_by_cause`` is its part of preempted
    requests. ``copying`` is a share of time.
    """

    start_ps: NDArray[np.int64]
    covered_ps: NDArray[np.int64]
    running: NDArray[np.float64]
    waiting: NDArray[np.float64]
    waiting_by_cause: dict[str, NDArray[np.float64]]
    preempted_by_cause: dict[str, NDArray[np.float64]]
    host_blocks: NDArray[np.float64]
    copying: NDArray[np.float64]

    @staticmethod
    def of(recorder: Recorder) -> Windows:
        """Return the windows up to the last one that covers any time."""
        covered = recorder.windows["window"]
        num = len(covered)
        while num > 1 and covered[num - 1] == 0:
            num -= 1

        def mean(*names: str) -> NDArray[np.float64]:
            columns = (recorder.windows[name][:num] for name in names)
            totals = map(sum, zip(*columns, strict=True))
            pairs = zip(totals, covered[:num], strict=True)
            return np.array([total / ps if ps else 0.0 for total, ps in pairs])

        return Windows(
            start_ps=np.arange(num, dtype=np.int64) * recorder.width_ps,
            covered_ps=np.array(covered[:num], dtype=np.int64),
            running=mean("running"),
            waiting=mean(*CAUSES),
            waiting_by_cause={cause: mean(cause) for cause in CAUSES},
            preempted_by_cause={cause: mean(PREEMPTED[cause]) for cause in CAUSES},
            host_blocks=mean(HOST),
            copying=mean(COPYING),
        )

    def mean_between(self, values: NDArray[np.float64], start_ps: int, end_ps: int) -> float:
        """Return the time-weighted mean of a column over windows that begin in ``[start, end)``."""
        inside = (self.start_ps >= start_ps) & (self.start_ps < end_ps)
        weight = self.covered_ps[inside]
        return float(np.average(values[inside], weights=weight)) if weight.sum() else 0.0


@dataclass(frozen=True, slots=True)
class Phases:
    """Edges in ps: first arrival <= steady start <= last arrival <= end."""

    first_arrival_ps: int
    steady_start_ps: int
    last_arrival_ps: int
    end_ps: int

    @staticmethod
    def of(columns: RequestColumns, recorder: Recorder, windows: Windows) -> Phases:
        """Return the edges of a run; arrivals after the end of a partial run are left out."""
        end_ps = recorder.end_ps
        seen = columns.arrival_ps[columns.arrival_ps <= end_ps]
        first, last = (int(seen.min()), int(seen.max())) if len(seen) else (0, 0)
        middle = first + (last - first) // 2
        later = windows.mean_between(windows.running, middle, last + 1)
        full = (windows.running >= _FULL_SHARE * later) & (windows.start_ps >= first)
        reached = windows.start_ps[full]
        start = int(reached[0]) if len(reached) else first
        return Phases(first, min(max(start, first), last), last, max(end_ps, last))


def summarise(phases: Phases, columns: RequestColumns, windows: Windows) -> documents.Phases:
    """Return rates and mean numbers in each phase; a request counts in the phase of its end."""
    finished = columns.finished()
    finish_ps = columns.finish_ps[finished]
    output_tokens = columns.generated_tokens()[finished]

    def phase(start_ps: int, end_ps: int) -> documents.Phase:
        inside = (finish_ps > start_ps) & (finish_ps <= end_ps)
        num, seconds = int(inside.sum()), (end_ps - start_ps) / PS_PER_S
        tokens = int(output_tokens[inside].sum())
        return documents.Phase(
            seconds=seconds,
            requests_finished=num,
            requests_per_s=num / seconds if seconds else None,
            output_tokens_per_s=tokens / seconds if seconds else None,
            mean_running=windows.mean_between(windows.running, start_ps, end_ps),
            mean_waiting=windows.mean_between(windows.waiting, start_ps, end_ps),
        )

    return documents.Phases(
        ramp_up=phase(phases.first_arrival_ps, phases.steady_start_ps),
        steady=phase(phases.steady_start_ps, phases.last_arrival_ps),
        drain=phase(phases.last_arrival_ps, phases.end_ps),
    )
