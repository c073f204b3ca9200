"""Fit TTFT and ITL of a server to a small designed set of requests.

::

    TTFT = f0 + f1*n + f2*n*n/2        one request alone, prompts of n tokens
    ITL  = c0 + c1*B + c2*T            B requests decode together, T = sum of their contexts

Batch and context are swept apart: in real traffic they move together, and a fit to it cannot tell
their terms (it may even give a context term of the wrong sign). Both hold at the client, so they
include transport and the server's front end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.calibrate.engine_logs.endpoint_client import Ask
from kvsim.calibrate.fit.max_affine import fit_max_affine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kvsim.calibrate.engine_logs.endpoint_client import Answer

MIN_TOGETHER: Final = 8
"""Gaps in which all requests of a batch decode, at least."""


@dataclass(frozen=True, slots=True)
class Design:
    """Which requests are sent.

    ``alone``: prompts sent one after the other, for TTFT. ``batches``: ``(requests, prompt
    tokens)`` sent together, for ITL.
    """

    alone: tuple[int, ...]
    batches: tuple[tuple[int, int], ...]
    output_tokens: int
    repeats: int

    @property
    def num_requests(self) -> int:
        """Requests of the whole design, the warm-up not counted."""
        batches = sum(requests for requests, _ in self.batches)
        return self.repeats * (len(self.alone) + batches)


def sweep(
    *, max_batch: int = 16, max_context: int = 4096, output_tokens: int = 64, repeats: int = 3
) -> Design:
    """Design with one sweep of the batch at short prompts, one of the context at one request.

    Two points with both large close it. Raises ``ValueError`` where a size leaves nothing to sweep.
    """
    longest = max_context - output_tokens
    if max_batch < 4 or longest < 512 or output_tokens < 2 * MIN_TOGETHER or repeats < 1:
        raise ValueError(
            f"--max-batch {max_batch} (at least 4), --max-context {max_context} (at least 512 "
            f"above --output-tokens), --output-tokens {output_tokens} (at least "
            f"{2 * MIN_TOGETHER}) and --repeats {repeats} (at least 1) leave nothing to sweep"
        )
    batches = dict.fromkeys(
        (
            *((1, prompt) for prompt in (longest // 32, longest // 4, longest // 2, longest)),
            *((size, longest // 32) for size in (max_batch // 4, max_batch // 2, max_batch)),
            (max_batch // 2, longest // 4),
            (max_batch, longest // 8),
        )
    )
    alone = (longest // 32, longest // 8, longest // 4, longest // 2, longest)
    return Design(alone, tuple(batches), output_tokens, repeats)


@dataclass(frozen=True, slots=True)
class LinearFit:
    """Coefficients in seconds, their standard errors, and the points' own median error."""

    coefficients: tuple[float, ...]
    standard_errors: tuple[float, ...]
    condition: float
    median_error: float
    """A fraction."""


@dataclass(frozen=True, slots=True)
class EndpointFit:
    """``ttft``: ``f0, f1, f2``; ``itl``: ``c0, c1, c2``."""

    ttft: LinearFit
    itl: LinearFit


def measure_endpoint(
    send: Callable[[Sequence[Ask]], list[Answer]],
    design: Design,
    on_progress: Callable[[int, int], None] | None = None,
) -> EndpointFit:
    """Send the design and fit; each point is the median of its repeats.

    The first batch of each size is sent once more before, as a warm-up. Raises ``ValueError`` where
    a batch never decoded together: the server queues, or answers are too short.
    """
    total, done = len(design.alone) + len(design.batches), 0
    send([Ask(design.alone[0], 2)])
    ttft_rows, ttft_s = [], []
    for prompt in design.alone:
        answers = [send([Ask(prompt, 2)])[0] for _ in range(design.repeats)]
        ttft_rows.append((1.0, float(prompt), prompt * prompt / 2))
        ttft_s.append(float(np.median([row.token_times_s[0] - row.sent_s for row in answers])))
        done += 1
        if on_progress is not None:
            on_progress(done, total)
    itl_rows, itl_s = [], []
    for requests, prompt in design.batches:
        asks = [Ask(prompt, design.output_tokens)] * requests
        points = [_together(send(asks)) for _ in range(design.repeats)]
        gap_s, context = np.median(np.array(points), axis=0)
        itl_rows.append((1.0, float(requests), float(context)))
        itl_s.append(float(gap_s))
        done += 1
        if on_progress is not None:
            on_progress(done, total)
    return EndpointFit(
        _fit(np.array(ttft_rows), np.array(ttft_s)), _fit(np.array(itl_rows), np.array(itl_s))
    )


def _fit(matrix: NDArray[np.float64], times_s: NDArray[np.float64]) -> LinearFit:
    fit = fit_max_affine([matrix], times_s * 1e6)
    coefficients = tuple(value / 1e6 for value in fit.coefficients[0])
    errors = np.abs(matrix @ np.array(coefficients) / times_s - 1)
    return LinearFit(
        coefficients,
        tuple(value / 1e6 for value in fit.standard_errors[0]),
        fit.condition,
        float(np.median(errors)),
    )


def _together(answers: Sequence[Answer]) -> tuple[float, float]:
    """Mean gap and mean context while all requests of a batch decode.

    The gap is what passed between two instants over the tokens that one request got in it; the
    step between them held every request, and the context grew by one token each.
    """
    start_s = max(answer.token_times_s[0] for answer in answers)
    end_s = min(answer.token_times_s[-1] for answer in answers)
    gaps, contexts = [], []
    for answer in answers:
        times = answer.token_times_s
        inside = np.flatnonzero((times >= start_s) & (times <= end_s))
        if len(inside) <= MIN_TOGETHER:
            raise ValueError(
                f"{len(answers)} requests of {answer.ask.prompt_tokens} tokens decoded together "
                f"for {max(len(inside) - 1, 0)} tokens, but {MIN_TOGETHER} are needed: give longer "
                "outputs (--output-tokens), or fewer requests than the server's max_num_seqs"
            )
        gaps.append((times[inside[-1]] - times[inside[0]]) / (len(inside) - 1))
        # the step that ends with token k (from 0) reads the prompt and the k tokens before it
        contexts.append(answer.ask.prompt_tokens + (inside[0] + 1 + inside[-1]) / 2)
    return float(np.mean(gaps)), float(np.sum(contexts))
