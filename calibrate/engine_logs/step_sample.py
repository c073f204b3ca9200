"""What a step, or a gap between two tokens, held and how long it took: rows that a fit reads.

Three sources give the same rows: steps as an engine logged them, the times of all tokens, and the
first and last token of each request. From the last two a row is the load over the gap, averaged;
the step form is linear in it, so averages are as good as steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

COLUMNS = ("steps", "tokens", "decodes", "context", "area")
"""Per row: 1; tokens; decoding requests; sum of their contexts; query-key pairs of prefills."""


_SAME_STEP = 0.2
"""Share of a short step within which the tokens of one step arrive."""
_SHORT_PERCENTILE = 10


@dataclass(frozen=True, slots=True)
class StepSample:
    """One step of a log.

    ``prefills``: ``(chunk, past)`` tokens a request; ``context``: sum of the decodes' contexts,
    this token included; ``host_s``: scheduling inside ``duration_s``, where it is known.
    """

    prefills: tuple[tuple[int, int], ...]
    num_decodes: int
    context: int
    duration_s: float
    host_s: float | None = None
    wall_s: float | None = None
    """Time on the wall, where ``duration_s`` is CPU time."""
    schedule: tuple[tuple[str, int, int], ...] = ()
    """``(request, tokens, computed before)`` in the engine's order."""

    @property
    def num_requests(self) -> int:
        """Requests in the step."""
        return self.num_decodes + len(self.prefills)

    @property
    def device_s(self) -> float:
        """Duration without the host's part, as far as that is known."""
        return self.duration_s - (self.host_s or 0.0)


@dataclass(frozen=True, slots=True)
class Loads:
    """Rows of :data:`COLUMNS`, float64, shape ``(n, 5)``; durations in seconds, shape ``(n,)``."""

    columns: NDArray[np.float64]
    duration_s: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.duration_s)

    def halves(self) -> tuple[Loads, Loads]:
        """First and second half, in the order of time."""
        middle = len(self) // 2
        return self.part(slice(0, middle)), self.part(slice(middle, None))

    def part(self, rows: slice) -> Loads:
        """Some of the rows."""
        return Loads(self.columns[rows], self.duration_s[rows])


def loads_of_steps(steps: Sequence[StepSample]) -> Loads:
    """One row a step; the host's part is taken off where it is known.

    Steps whose clock is too coarse to hold their own scheduling are left out.
    """
    steps = [step for step in steps if step.device_s > 0]
    rows = [
        (
            1.0,
            float(sum(chunk for chunk, _ in step.prefills) + step.num_decodes),
            float(step.num_decodes),
            float(step.context),
            sum(chunk * past + chunk * chunk / 2 for chunk, past in step.prefills),
        )
        for step in steps
    ]
    durations = [step.device_s for step in steps]
    return Loads(np.array(rows).reshape(-1, len(COLUMNS)), np.array(durations))


def loads_of_tokens(
    prompt_tokens: NDArray[np.int64], token_times_s: Sequence[NDArray[np.float64]]
) -> Loads:
    """One row a step, as far as tokens tell: from one instant of tokens to the next.

    Only pairs of instants at which some request got two tokens in a row: between others the engine
    may have been idle, or busy with prompts alone. Prompts are counted where their first token
    comes, whole: tokens do not tell how they were cut into chunks.
    """
    lengths = np.array([len(times) for times in token_times_s])
    gaps_s = np.concatenate([np.diff(times) for times in token_times_s])
    if not len(gaps_s):
        return Loads(np.empty((0, len(COLUMNS))), np.empty(0))
    short_gap_s = float(np.percentile(gaps_s, _SHORT_PERCENTILE))
    instants_s, instant = _instants(np.concatenate(list(token_times_s)), short_gap_s)
    ends = np.cumsum(lengths)
    first, last = instant[ends - lengths], instant[ends - 1]
    follows = np.ones(len(instant), dtype=bool)
    follows[ends - lengths] = False
    rows = np.unique(instant[follows & (np.diff(instant, prepend=-2) == 1)])
    num = len(instants_s)

    def count(places: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(places, values, num).astype(np.float64)

    ones = np.ones(len(lengths))
    prompts = prompt_tokens.astype(np.float64)
    decodes = np.cumsum(count(first, ones) - count(last, ones))
    emitted = np.cumsum(np.bincount(instant, minlength=num))
    left = np.cumsum(count(last, prompts + lengths))
    context = np.cumsum(count(first, prompts)) + emitted - left
    entered, area = count(first, prompts), count(first, prompts**2 / 2)
    before = rows - 1
    columns = np.column_stack(
        [
            np.ones(len(rows)),
            entered[rows] + decodes[before],
            decodes[before],
            context[before],
            area[rows],
        ]
    )
    return Loads(columns, instants_s[rows] - instants_s[before])


def _instants(
    times_s: NDArray[np.float64], short_gap_s: float
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Instants at which tokens came, and the instant of each time.

    Tokens of one step reach their clients a little apart: those within ``_SAME_STEP`` of a short
    gap between tokens of a request are one instant, their mean.
    """
    order = np.argsort(times_s, kind="stable")
    number = np.concatenate([[0], np.cumsum(np.diff(times_s[order]) > _SAME_STEP * short_gap_s)])
    instant = np.empty(len(times_s), dtype=np.int64)
    instant[order] = number
    return np.bincount(instant, times_s) / np.bincount(instant), instant


def loads_of_requests(
    prompt_tokens: NDArray[np.int64],
    output_tokens: NDArray[np.int64],
    first_token_s: NDArray[np.float64],
    last_token_s: NDArray[np.float64],
) -> Loads:
    """One row a request: its mean gap between tokens, and the mean load over its answer.

    Tokens are taken as evenly spread between the first and the last one.
    """
    grid = np.linspace(first_token_s.min(), last_token_s.max(), 4096)
    decodes = np.zeros(len(grid))
    context = np.zeros(len(grid))
    for prompt, output, first, last in zip(
        prompt_tokens, output_tokens, first_token_s, last_token_s, strict=True
    ):
        inside = (grid >= first) & (grid <= last)
        decodes += inside
        done = (grid - first) / max(last - first, 1e-9) * (output - 1) + 1
        context += np.where(inside, prompt + done, 0.0)
    rows, durations = [], []
    for output, first, last in sorted(
        zip(output_tokens.tolist(), first_token_s.tolist(), last_token_s.tolist(), strict=True),
        key=lambda row: row[1],
    ):
        seen = (grid >= first) & (grid <= last)
        if output < 2 or not seen.any():
            continue
        steps = output - 1
        entered = (first_token_s > first) & (first_token_s <= last)
        mean_decodes = float(decodes[seen].mean())
        tokens = float(prompt_tokens[entered].sum()) / steps
        area = float((prompt_tokens[entered] ** 2 / 2).sum()) / steps
        mean_context = float(context[seen].mean())
        rows.append((1.0, tokens + mean_decodes, mean_decodes, mean_context, area))
        durations.append((last - first) / steps)
    return Loads(np.array(rows).reshape(-1, len(COLUMNS)), np.array(durations))
