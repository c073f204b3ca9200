"""Fit the step form to what a running engine logged.

::

    step = c0 + c1*N + c2*B + c3*T + c4*A

    N = tokens, B = decodes, T = sum of their contexts, A = query-key pairs of the prefills

The form is that of :mod:`kvsim.sim.cost.profile_cost` with one GEMM piece and one attention piece.
Host terms o0, o1 are told apart from c0, c2 only where the log times the scheduler by itself, or
where a profile of the card says what the device takes (:mod:`kvsim.calibrate.validate.overhead`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.calibrate.engine_logs.step_sample import (
    Loads,
    loads_of_requests,
    loads_of_steps,
    loads_of_tokens,
)
from kvsim.calibrate.fit.max_affine import TOO_CONDITIONED, fit_max_affine
from kvsim.sim.cost.profile import (
    DecodeAttention,
    HoldOut,
    HostTerm,
    MeasuredRanges,
    MixedAttention,
    PrefillAttention,
    TokenTerm,
)
from kvsim.sim.cost.profile_cost import GroupAttention, ProfileCost, TokenCost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvsim.calibrate.engine_logs.measured_run import MeasuredRun
    from kvsim.calibrate.engine_logs.step_sample import StepSample
    from kvsim.sim.cost.profile import Profile

"""Condition number of the relative sensitivities above which terms move together."""
MIN_ROWS: Final = 10
_PS: Final = 1e12
_US_PER_S: Final = 1e6


@dataclass(frozen=True, slots=True)
class StepForm:
    """Coefficients in seconds, in the order of :data:`COLUMNS`, and how well they are known.

    ``host_s``: ``(o0, o1)`` or ``None`` where the log cannot tell them apart.
    """

    coefficients: tuple[float, ...]
    standard_errors: tuple[float, ...]
    condition: float
    num_rows: int
    measured: MeasuredRanges
    host_s: tuple[float, float] | None = None

    def predict(self, loads: Loads) -> NDArray[np.float64]:
        """Durations of rows, seconds, without the host's part."""
        return np.asarray(loads.columns @ np.array(self.coefficients))

    def errors(self, loads: Loads) -> NDArray[np.float64]:
        """Absolute relative errors of rows, as fractions."""
        return np.abs(self.predict(loads) / loads.duration_s - 1)

    @property
    def moves_together(self) -> bool:
        """Whether some terms cannot be told apart by this log."""
        return self.condition > TOO_CONDITIONED

    def cost(self, name: str) -> ProfileCost:
        """Step cost of a synchronous engine: host + device, whole picoseconds."""
        base, token, decode, context, area = (round(c * _PS) for c in self.coefficients)
        host = self.host_s or (0.0, 0.0)
        attention = GroupAttention(
            decode_ps=0,
            decode_per_request_ps=decode,
            decode_per_context_ps=context,
            mixed_per_request_ps=decode,
            mixed_per_context_ps=context,
            reach_ps=0,
            reach_per_token_ps=0,
            base_ps=0,
            per_token_ps=0,
            area_fs=round(self.coefficients[4] * _PS * 1000 / 2) if area else 0,
        )
        return ProfileCost(
            name=name,
            overlap=False,
            host_ps=round(host[0] * _PS),
            host_per_request_ps=round(host[1] * _PS),
            gemm=TokenCost(((base, token),)),
            all_reduce=TokenCost(()),
            attention=(attention,),
            head=TokenCost(()),
            measured=self.measured,
        )


def loads_of(run: MeasuredRun) -> Loads:
    """Rows of a run: of its steps, else of its tokens, else of its requests."""
    if run.steps:
        return loads_of_steps(run.steps)
    if run.token_times_s is not None:
        return loads_of_tokens(run.prompt_tokens, run.token_times_s)
    return loads_of_requests(
        run.prompt_tokens, run.output_tokens, run.first_token_s, run.last_token_s
    )


def fit_steps(loads: Loads, steps: Sequence[StepSample] = ()) -> StepForm:
    """Fit the form to rows: non-negative, relative error, soft-L1 loss.

    ``steps``: the same rows as steps, where the log has them, for the host terms. Raises
    ``ValueError`` with fewer than ``MIN_ROWS`` rows.
    """
    if len(loads) < MIN_ROWS:
        msg = f"{len(loads)} steps are too few to fit a step cost; at least {MIN_ROWS} are needed"
        raise ValueError(msg)
    fit = fit_max_affine([loads.columns], loads.duration_s * _US_PER_S)
    ranges = _ranges(loads, steps)
    return StepForm(
        _seconds(fit.coefficients[0]),
        _seconds(fit.standard_errors[0]),
        fit.condition,
        len(loads),
        ranges,
        _host_terms(steps),
    )


def _ranges(loads: Loads, steps: Sequence[StepSample]) -> MeasuredRanges:
    """Where the rows lie; prefills only where steps tell them."""
    _, tokens, decodes, context, _ = loads.columns.T
    reaches = [chunk + past for step in steps for chunk, past in step.prefills]
    return MeasuredRanges(
        batch=_bounds(decodes[decodes > 0]),
        total_context=_bounds(context[decodes > 0]),
        step_tokens=_bounds(tokens),
        prefill_tokens=(min(reaches), max(reaches)) if reaches else None,
    )


def _bounds(values: NDArray[np.float64]) -> tuple[int, int] | None:
    return (int(values.min()), int(values.max())) if len(values) else None


def hold_out(form: StepForm, unseen: Loads) -> HoldOut:
    """Error on rows that were not fitted."""
    errors = form.errors(unseen)
    return HoldOut(float(np.median(errors)), float(np.percentile(errors, 90)), len(errors))


def _host_terms(steps: Sequence[StepSample]) -> tuple[float, float] | None:
    """``(o0, o1)`` of the scheduler's own times."""
    timed = [(step.num_requests, step.host_s) for step in steps if step.host_s]
    if len(timed) < MIN_ROWS:
        return None
    matrix = np.array([(1.0, float(requests)) for requests, _ in timed])
    host_us = np.array([host for _, host in timed]) * _US_PER_S
    base, per_request = _seconds(fit_max_affine([matrix], host_us).coefficients[0])
    return base, per_request


def _seconds(values_us: Sequence[float]) -> tuple[float, ...]:
    return tuple(value / _US_PER_S for value in values_us)


def profile_of(form: StepForm, base: Profile, name: str, source: str) -> Profile:
    """Profile with the step form in place of every term of ``base``; its shape and card stay.

    What the log cannot tell apart stays in ``gemm``.
    """
    layers = base.model.num_layers
    step, token, decode, context, area = (c * 1e6 / layers for c in form.coefficients)
    host = form.host_s or (0.0, 0.0)
    assumed = ["a step's constant holds layers, head and what the host does not overlap"]
    if form.host_s is None:
        assumed.append("o0 and o1 are inside gemm and decode_attention: the log has no host times")
    return replace(
        base,
        name=name,
        source=source,
        kernels={},
        host=HostTerm(host[0] * 1e6, host[1] * 1e6),
        gemm=TokenTerm(((step, token),)),
        decode_attention=DecodeAttention(0.0, decode, context),
        prefill_attention=PrefillAttention(0.0, 0.0, 0.0, 0.0, area),
        mixed_attention=MixedAttention(decode, context),
        head=TokenTerm(((0.0, 0.0),)),
        measured=form.measured,
        fidelity="step form fitted to a serving log",
        assumed=tuple(assumed),
    )
