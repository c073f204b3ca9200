"""Sentences on what a trace, its reading and the step cost do to the numbers of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.policies.queue_order import Fair
from kvsim.sim.cost.profile import MeasuredRanges
from kvsim.sim.cost.profile_cost import ProfileCost
from kvsim.sim.metrics.users import fair_note
from kvsim.sim.recording.recorder import FINISHED
from kvsim.sim.scenario.checks.samples import num_several
from kvsim.traces.adjust.output_ids import parents_of
from kvsim.traces.common.text import counted
from kvsim.traces.trace.prefix import shared_prefix_is_lower_bound

if TYPE_CHECKING:
    from kvsim.sim.run.run import Run

_MANY_OUTSIDE: Final = 0.1
"""Share of steps outside the measured range of the step cost above which a note warns."""


def run_notes(run: Run) -> list[str]:
    """Return sentences on the effects of the trace and its reading on the numbers."""
    notes = []
    prefix, config = run.trace.prefix, run.setup.config
    named = prefix.block_size if prefix is not None and config.enable_prefix_caching else 0
    if shared_prefix_is_lower_bound(named, config.block_size):
        notes.append(
            f"hit rates are lower bounds: an id of the trace names {named} tokens, and a "
            f"block holds {counted(config.block_size, 'token')}"
        )
    if config.queue.policy == Fair.name:
        notes.append(fair_note(run.trace))
    notes += _cut_outputs(run)
    notes += _several_outputs(run)
    notes += _extrapolated(run)
    rule = run.options.assume_max_tokens
    if rule.startswith("factor"):
        notes.append(f"uses oracle knowledge: max_tokens is {rule} of the true output")
    if run.loop is not None:
        notes.append(run.loop.note())
    elif run.options.rate_scale != "1" and (parents_of(run.trace) >= 0).any():
        notes.append("--rate-scale divides the times between the turns of a session, too")
    return notes


def _cut_outputs(run: Run) -> list[str]:
    """Return a sentence on outputs that are shorter than in the trace."""
    trace, recorder, notes = run.trace, run.engine.recorder, []
    finished = np.frombuffer(recorder.status, dtype=np.int8) == FINISHED
    generated = np.frombuffer(recorder.output_tokens, dtype=np.int32)
    lost = np.where(finished, trace.output_tokens - generated, 0)
    if lost.any():
        notes.append(
            f"{counted(int(np.count_nonzero(lost)), 'output was', 'outputs were')} cut "
            "short, by "
            f"{counted(int(lost.sum()), 'token')} in all: max_model_len "
            f"{run.setup.config.max_model_len:,} or max_tokens leaves no room for them"
        )
    return notes


def _several_outputs(run: Run) -> list[str]:
    """Return a sentence on requests that ask for several outputs."""
    several = num_several(run.trace)
    if not several:
        return []
    how = (
        "each is a sequence group, which shares blocks until a sequence writes to them"
        if run.setup.config.allocator.samples == "group"
        else "each sample is a request of its own"
    )
    return [
        f"{counted(several, 'request asks', 'requests ask')} for several outputs, all "
        f"with the length in the trace: {how}"
    ]


def _extrapolated(run: Run) -> list[str]:
    """Return a warning if many steps are outside the measured range of the profile."""
    cost, recorder = run.setup.cost, run.engine.recorder
    if not isinstance(cost, ProfileCost) or cost.measured == MeasuredRanges():  # all assumed
        return []
    if recorder.num_steps_outside <= _MANY_OUTSIDE * recorder.num_steps:
        return []
    return [
        "over a tenth of the steps lie outside the measured range of the step cost: their "
        "times are extrapolated"
    ]
