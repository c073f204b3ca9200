"""Simulate a trace and hold what came of it.

``simulate`` is the Python door of the product: trace and scenario in, a :class:`Run` out. A run
gives a summary (plain dict), pandas frames on request, and a folder of files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kvsim.sim.engine_setup import EngineSetup, set_up
from kvsim.sim.metrics import Summary, summarise_run
from kvsim.sim.preset import verification
from kvsim.sim.run_arguments import check_run_arguments, check_watchers
from kvsim.sim.run_notes import run_notes
from kvsim.sim.run_tables import request_table, series_table
from kvsim.sim.sample_checks import check_samples
from kvsim.sim.scenario import DEFAULT_PRESET, Scenario
from kvsim.sim.scenario_loader import load_scenario
from kvsim.sim.users import check_users
from kvsim.traces.arguments import check_path
from kvsim.traces.counted import counted
from kvsim.traces.rate_scale import parse_rate_scale, scale_rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    import pandas as pd

    from kvsim.sim.block_map import BlockMap
    from kvsim.sim.engine_run import EngineRun
    from kvsim.sim.observer import Observer
    from kvsim.sim.report.run_plots import RunPlots
    from kvsim.sim.schedule_listener import ScheduleListener
    from kvsim.traces.closed_loop import FollowOns
    from kvsim.traces.trace import Trace


@dataclass(frozen=True)
class Run:
    """One trace simulated under one scenario.

    ``options`` are what else shaped the result, ``loop`` is who waited for whose answer,
    ``source`` how the trace was read, where a command did: ``{"path": ..., "options": {...}}``.
    ``block_map`` is what a :class:`~kvsim.sim.block_map.BlockRecording` saw, where one listened.
    """

    trace: Trace
    scenario: Scenario
    setup: EngineSetup
    engine: EngineRun
    seed: int
    options: dict[str, object]
    loop: FollowOns | None = None
    source: dict[str, object] | None = None
    block_map: BlockMap | None = None

    def __repr__(self) -> str:
        """One line; the generated form would print the whole trace."""
        names = self.scenario.preset, self.scenario.model.name, self.scenario.hardware.name
        return (
            f"<Run of {self.trace.name}, {counted(len(self.trace), 'request')}: {', '.join(names)}>"
        )

    def _repr_html_(self) -> str:
        from kvsim.sim.report.notebook import run_html  # noqa: PLC0415 - only notebooks ask

        return run_html(self)

    @cached_property
    def summary(self) -> Summary:
        """All metrics of ``docs/metrics.md`` as nested dicts of plain numbers."""
        head: Summary = {
            "trace": {"name": self.trace.name, "sha256": self.trace.sha256},
            "scenario": {
                "preset": self.scenario.preset,
                "verified": verification(self.scenario),
                "model": self.scenario.model.name,
                "hardware": self.scenario.hardware.name,
            },
            "engine": {
                "name": self.engine.engine,
                "reason": self.engine.reason,
                "audited": self.engine.audited,
            },
            "partial": self.engine.partial,
            "notes": [*self.setup.notes, *run_notes(self)],
        }
        return head | summarise_run(
            self.trace,
            self.engine.recorder,
            self.setup.pool,
            self.scenario.slo,
            cost_source=self.setup.cost.name,
            predictor=self.setup.config.predictor.kind,
        )

    @property
    def requests(self) -> pd.DataFrame:
        """One row a request (columns in ``docs/metrics.md``)."""
        import pandas as pd  # noqa: PLC0415 - only who asks for a frame pays for pandas

        return pd.DataFrame(request_table(self.trace, self.engine.recorder))

    @property
    def series(self) -> pd.DataFrame:
        """One row a time window (columns in ``docs/metrics.md``)."""
        import pandas as pd  # noqa: PLC0415 - only who asks for a frame pays for pandas

        return pd.DataFrame(series_table(self.engine.recorder, self.setup.pool))

    @property
    def plot(self) -> RunPlots:
        """The charts of the page as plotly figures: ``run.plot.kv()``, ``.queue()``, ..."""
        from kvsim.sim.report.run_plots import RunPlots  # noqa: PLC0415 - needs plotly

        return RunPlots(self)

    def save(self, folder: str | Path) -> None:
        """Write the run folder; see :func:`kvsim.sim.run_folder.write_run`."""
        from kvsim.sim.run_folder import write_run  # noqa: PLC0415 - pyarrow and plotly are heavy

        check_path("folder", folder)
        write_run(self, Path(folder))


def simulate(
    trace: Trace | str | Path,
    scenario: Scenario | str | Path | None = None,
    *,
    step: bool = False,
    audit: bool = False,
    seed: int = 0,
    rate_scale: Fraction | float | str = 1,
    assume_max_tokens: str = "model",
    closed: bool = False,
    think_time: str | None = None,
    num_users: int | None = None,
    timeout: str | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    listener: ScheduleListener | None = None,
    observers: Sequence[Observer] = (),
) -> Run:
    """Replay a trace under a scenario.

    Parameters
    ----------
    trace
        A trace, or the path of one in any format that kvsim reads.
    scenario
        A scenario, a preset name or the path of a TOML file; ``None`` = ``DEFAULT_PRESET``.
    step
        Run the stepper (the specification) even where the leaper could.
    audit
        Check the invariants at every event.
    seed
        Source of randomness for policies that draw; kept in the manifest.
    rate_scale
        Arrivals come that many times as fast.
    assume_max_tokens
        What the engine is told where the trace is silent: ``model``, ``N`` or ``factor(x)``.
    closed
        Every turn waits for the answer before it, and comes its think time after; otherwise only
        turns without a time of their own do.
    think_time
        Law of think times that the trace does not record: ``5s``, ``exponential(mean=5s)``, ...
    num_users
        Closed with so many users, who take one session after the other, in order of their times,
        and pause by ``think_time`` in between. The trace needs no times then.
    timeout
        ``30s``: clients give a request up so long after it arrives, where the trace does not say.
    on_progress
        Called with (requests ended, requests in all).
    listener
        Sees every decision; makes the stepper run.
    observers
        See what requests go through, whichever engine runs.

    Raises
    ------
    ValueError
        On a trace, scenario or option that cannot be used; one sentence for the user.
    """
    check_run_arguments(
        step=step,
        audit=audit,
        closed=closed,
        seed=seed,
        assume_max_tokens=assume_max_tokens,
        think_time=think_time,
        num_users=num_users,
        timeout=timeout,
        on_progress=on_progress,
    )
    check_watchers(listener, observers)
    from kvsim.sim import engine_run  # noqa: PLC0415 - simpy is not needed to read a scenario
    from kvsim.traces import assume_max_tokens as told_max_tokens  # noqa: PLC0415
    from kvsim.traces import check_usable, read_trace  # noqa: PLC0415
    from kvsim.traces.closed_loop import ThinkRule, follow_ons  # noqa: PLC0415
    from kvsim.traces.patience import with_timeout  # noqa: PLC0415

    if not isinstance(scenario, Scenario):
        scenario = load_scenario(DEFAULT_PRESET if scenario is None else scenario)
    setup = set_up(scenario)
    if isinstance(trace, (str, Path)):
        trace = read_trace(Path(trace), need_times=num_users is None)
    check_usable(trace, need_times=num_users is None)
    check_users(setup.config, trace)
    if timeout is not None:
        trace = with_timeout(trace, timeout)
    scale = parse_rate_scale(str(rate_scale))
    trace = scale_rate(trace, scale)
    if num_users is not None and num_users < 1:
        raise ValueError(f"--users is {num_users}; it must be at least 1")
    loop = follow_ons(
        trace,
        closed=closed,
        users=num_users is not None,
        think=None if think_time is None else ThinkRule.parse(think_time),
        rng=np.random.default_rng(seed),
    )
    check_samples(setup.config, trace, closed=loop is not None or num_users is not None)
    engine = engine_run.run(
        trace,
        setup.config,
        setup.cost,
        max_tokens=told_max_tokens(trace, assume_max_tokens, setup.config.max_model_len),
        seed=seed,
        step=step,
        audit=audit,
        on_progress=on_progress,
        listener=listener,
        observers=observers,
        follow_ons=loop,
        num_users=num_users,
        link=setup.link,
    )
    options: dict[str, object] = {
        "rate_scale": str(scale),
        "assume_max_tokens": assume_max_tokens,
        "step": bool(step),
        "audit": bool(audit),
        "closed": bool(closed),
        "think_time": think_time,
        "num_users": None if num_users is None else int(num_users),  # numpy's are no JSON
        "timeout": timeout,
    }
    return Run(trace, scenario, setup, engine, int(seed), options, loop)
