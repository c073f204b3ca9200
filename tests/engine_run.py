"""One engine run with everything in one list of keywords."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvsim.sim.run import drive as engine_run
from kvsim.sim.run.options import RunOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.cost.host_link import HostLink
    from kvsim.sim.cost.step_cost import StepCost
    from kvsim.traces.adjust.closed_loop import FollowOns
    from kvsim.traces.trace.trace import Trace

WATCHERS = set(engine_run.Watchers.__dataclass_fields__)


def run(
    trace: Trace,
    config: SchedulerConfig,
    cost: StepCost,
    *,
    max_tokens: NDArray[np.int64],
    link: HostLink | None = None,
    follow_ons: FollowOns | None = None,
    **more: Any,
) -> engine_run.EngineRun:
    """As :func:`kvsim.sim.run.drive.run`; ``more`` are run options and watchers by name."""
    return engine_run.run(
        trace,
        engine_run.Engine(config, cost, link),
        max_tokens=max_tokens,
        options=RunOptions(**{k: v for k, v in more.items() if k not in WATCHERS}),
        follow_ons=follow_ons,
        watchers=engine_run.Watchers(**{k: v for k, v in more.items() if k in WATCHERS}),
    )
