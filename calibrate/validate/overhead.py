"""Engine overhead that a profile of kernels leaves over: o0 and o1.

From a log of steps: what the steps took beyond the device part of the profile. From a log of
requests alone: the o0 at which the replay has the measured mean TPOT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.optimize import nnls

from kvsim.calibrate.validate.measured_replay import replay, with_overhead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.calibrate.engine_logs.measured_run import MeasuredRun
    from kvsim.calibrate.engine_logs.step_sample import StepSample
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.cost.profile_cost import ProfileCost
    from kvsim.traces.trace.trace import Trace

MOST_US: Final = 10_000.0
"""Largest overhead that is looked for: 10 ms a step, what slow engines of 2023 had."""
_STEP_US: Final = 1.0
_PS_PER_S: Final = 1e12


def overhead_of_steps(steps: Sequence[StepSample], cost: ProfileCost) -> tuple[float, float]:
    """``(o0, o1)`` in us: step and request, >= 0, by least squares on what the device leaves."""
    bare = with_overhead(cost, 0.0)
    left_us = [
        (step.duration_s - bare.step(step.prefills, step.num_decodes, step.context)[0] / _PS_PER_S)
        * 1e6
        for step in steps
    ]
    matrix = np.array([(1.0, float(step.num_requests)) for step in steps])
    (base, per_request), _ = nnls(matrix, np.array(left_us))
    return float(base), float(per_request)


def overhead_by_replay(
    run: MeasuredRun, trace: Trace, config: SchedulerConfig, cost: ProfileCost
) -> float:
    """``o0`` in us at which the replay's mean TPOT is the measured one, to 1 us (bisection).

    Raises ``ValueError`` where the replay is too slow without any overhead, or too fast with
    ``MOST_US``: then it is the profile that does not fit.
    """
    theirs = float(np.nanmean(run.tpot_s()))

    def excess(overhead_us: float) -> float:
        ours = replay(trace, config, with_overhead(cost, overhead_us))
        return float(np.nanmean(ours.tpot_s)) - theirs

    low, high = 0.0, MOST_US
    if (slow := excess(low)) > 0 or excess(high) < 0:
        side = "slower than measured without any" if slow > 0 else "faster with 10 ms a step of"
        msg = f"{run.name}: replayed with {cost.name} tokens come {side} overhead: not this profile"
        raise ValueError(msg)
    while high - low > _STEP_US:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) < 0 else (low, middle)
    return (low + high) / 2
