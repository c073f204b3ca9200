"""Simulate a trace and hold what came of it.

``simulate`` is the Python door of the product: trace and scenario in, a :class:`Run` out. A run
gives a summary (typed, with units), pandas frames on request, and a folder of files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np

from kvsim.sim.documents.summary import EngineUsed, ScenarioNames
from kvsim.sim.metrics.summary import summarise_run
from kvsim.sim.metrics.tables import request_table, series_table
from kvsim.sim.run.notes import run_notes
from kvsim.sim.run.options import RunOptions
from kvsim.sim.scenario.checks.check import refuse
from kvsim.sim.scenario.checks.samples import TRACE, Replayed
from kvsim.sim.scenario.loader import load_scenario
from kvsim.sim.scenario.preset import verification
from kvsim.sim.scenario.scenario import DEFAULT_PRESET, Scenario
from kvsim.sim.scenario.setup import EngineSetup, set_up
from kvsim.traces.adjust.rate_scale import scale_rate
from kvsim.traces.common.arguments import check_path
from kvsim.traces.common.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd

    from kvsim.sim.block_map import BlockMap
    from kvsim.sim.documents.manifest import TraceSource
    from kvsim.sim.documents.summary import Summary
    from kvsim.sim.engine.listener import ScheduleListener
    from kvsim.sim.engine.observer import Observer
    from kvsim.sim.report.run_plots import RunPlots
    from kvsim.sim.run.drive import EngineRun, Watchers
    from kvsim.sim.run.options import RunKeywords
    from kvsim.traces.adjust.closed_loop import FollowOns
    from kvsim.traces.trace.trace import Trace


@dataclass(frozen=True)
class Run:
    """One trace simulated under one scenario.

    ``options`` are what else shaped the result, ``loop`` is who waited for whose answer,
    ``source`` how the trace was read, where a command did.
    ``block_map`` is what a :class:`~kvsim.sim.block_map.BlockRecording` saw, where one listened.
    """

    trace: Trace
    scenario: Scenario
    setup: EngineSetup
    engine: EngineRun
    options: RunOptions
    loop: FollowOns | None = None
    source: TraceSource | None = None
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
        """All metrics of ``docs/metrics.md``: ``run.summary.latency.ttft_s.p99``."""
        return summarise_run(
            self.trace,
            self.engine.recorder,
            self.setup.pool,
            self.scenario.slo,
            scenario=ScenarioNames(
                preset=self.scenario.preset,
                verified=verification(self.scenario),
                model=self.scenario.model.name,
                hardware=self.scenario.hardware.name,
            ),
            engine=EngineUsed(
                name=self.engine.engine,
                reason=self.engine.reason,
                audited=self.engine.audited,
            ),
            cost_source=self.setup.cost.name,
            predictor=self.setup.config.predictor.kind,
            partial=self.engine.partial,
            notes=[*self.setup.notes, *run_notes(self)],
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

    def save(self, folder: str | Path | None = None) -> Path:
        """Write the run into a new folder, by default one in ``kvsim-runs``, and return which.

        Raises
        ------
        ValueError
            Where something is there already.
        OSError
            Where it cannot be written; then nothing is.
        """
        from kvsim.sim.folders.place import result_folder  # noqa: PLC0415
        from kvsim.sim.run.folder import write_run  # noqa: PLC0415 - pyarrow and plotly are heavy

        if folder is not None:
            check_path("folder", folder)
        place = None if folder is None else Path(folder)
        with result_folder(place, self.trace.name) as new, new.filled() as draft:
            write_run(self, draft)
        return new.path


def simulate(
    trace: Trace | str | Path,
    scenario: Scenario | str | Path | None = None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    listener: ScheduleListener | None = None,
    observers: Sequence[Observer] = (),
    **options: Unpack[RunKeywords],
) -> Run:
    """Replay a trace under a scenario.

    Parameters
    ----------
    trace
        A trace, or the path of one in any format that kvsim reads.
    scenario
        A scenario, a preset name or the path of a TOML file; ``None`` = ``DEFAULT_PRESET``.
    on_progress
        Called with (requests ended, requests in all).
    listener
        Sees every decision; makes the stepper run.
    observers
        See what requests go through, whichever engine runs.
    options
        ``seed``, ``rate_scale``, ``num_users`` and the other fields of
        :class:`~kvsim.sim.run.options.RunOptions`; docs/scenarios.md has a line on each.

    Raises
    ------
    ValueError
        On a trace, scenario or option that cannot be used; one sentence for the user.
    """
    from kvsim.sim.run.drive import Watchers  # noqa: PLC0415 - reading a scenario needs no simpy

    chosen = RunOptions.of(options)
    watchers = Watchers(on_progress, listener, observers=observers)
    return simulate_as(trace, scenario, chosen, watchers)


def simulate_as(
    trace: Trace | str | Path,
    scenario: Scenario | str | Path | None,
    options: RunOptions,
    watchers: Watchers,
) -> Run:
    """Replay a trace under a scenario, with options that are checked; as :func:`simulate`."""
    from kvsim.sim.run import drive as engine_run  # noqa: PLC0415 - simpy is not needed to read a scenario
    from kvsim.traces import assume_max_tokens, check_usable, read_trace  # noqa: PLC0415
    from kvsim.traces.adjust.closed_loop import follow_ons  # noqa: PLC0415
    from kvsim.traces.adjust.patience import with_timeout  # noqa: PLC0415

    if not isinstance(scenario, Scenario):
        scenario = load_scenario(DEFAULT_PRESET if scenario is None else scenario)
    setup = set_up(scenario)
    if isinstance(trace, (str, Path)):
        trace = read_trace(Path(trace), need_times=not options.has_users)
    check_usable(trace, need_times=not options.has_users)
    if options.timeout is not None:
        trace = with_timeout(trace, options.timeout)
    trace = scale_rate(trace, options.scale)
    loop = follow_ons(
        trace,
        closed=options.closed,
        users=options.has_users,
        think=options.think,
        rng=np.random.default_rng(options.seed),
    )
    closed_loop = loop is not None or options.has_users
    refuse(TRACE, scenario, Replayed(trace, setup.config, closed_loop))
    engine = engine_run.run(
        trace,
        engine_run.Engine(setup.config, setup.cost, setup.link),
        max_tokens=assume_max_tokens(trace, options.assume_max_tokens, setup.config.max_model_len),
        options=options,
        follow_ons=loop,
        watchers=watchers,
    )
    return Run(trace, scenario, setup, engine, options, loop)
