"""One leap: k decode steps with a fixed batch, and its closed forms.

Step ``j`` lasts ``first_ps + slope_ps * j``. Call ``V + j`` of the leap takes one block for each
request whose last block is full: ``demand[(V - 1 + j) % block_size]``, a histogram over phases.
"""

from __future__ import annotations

from itertools import accumulate
from math import isqrt
from operator import mul
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def steps_ps(first_ps: int, slope_ps: int, num_steps: int) -> int:
    """Duration of ``num_steps`` steps."""
    return num_steps * first_ps + slope_ps * (num_steps * (num_steps - 1) // 2)


def weighted_steps(first_ps: int, slope_ps: int, num_steps: int) -> int:
    """Sum of ``j`` times the duration of step ``j``."""
    pairs = num_steps * (num_steps - 1) // 2
    return first_ps * pairs + slope_ps * (pairs * (2 * num_steps - 1) // 3)


def steps_to_reach(first_ps: int, slope_ps: int, elapsed_ps: int) -> int:
    """Fewest steps that last at least ``elapsed_ps`` (``first_ps`` > 0); exact in integers."""
    if elapsed_ps <= 0:
        return 0
    if slope_ps == 0:
        return -(-elapsed_ps // first_ps)
    u = 2 * first_ps - slope_ps
    steps = (isqrt(u * u + 8 * slope_ps * elapsed_ps) - u) // (2 * slope_ps)  # at most 1 off
    while steps * first_ps + slope_ps * (steps * (steps - 1) // 2) < elapsed_ps:
        steps += 1
    return steps


def steps_within(demand: Sequence[int], start: int, batch: int, blocks: int) -> int:
    """Most further calls whose total demand is at most ``blocks``; O(block size).

    ``demand`` is the phase histogram stored twice in a row. ``start`` is the phase of the first of
    these calls. ``batch`` is the sum of the histogram. A full turn of phases takes exactly
    ``batch`` blocks.
    """
    block_size = len(demand) // 2
    turns, left = divmod(blocks, batch)
    steps = turns * block_size
    for phase in range(start, start + block_size):
        left -= demand[phase]
        if left < 0:
            break
        steps += 1
    return steps


def weighted_blocks(
    demand: Sequence[int], start: int, num_steps: int, first_ps: int, slope_ps: int
) -> tuple[int, int]:
    """Blocks taken by ``num_steps`` calls from phase ``start`` on: ``(weighted sum, last)``.

    The first is the sum over ``i`` of ``(first + slope * i) * taken(i)`` with ``taken(i)`` = blocks
    taken by the first ``i + 1`` calls; the second is ``taken(num_steps - 1)``. O(block size).
    """
    block_size = len(demand) // 2
    if num_steps < block_size:
        taken = list(accumulate(demand[start : start + num_steps]))
        if not taken:
            return 0, 0
        weighted = first_ps * sum(taken)
        if slope_ps:
            weighted += slope_ps * sum(map(mul, taken, range(num_steps)))
        return weighted, taken[-1]
    turns, rest = divmod(num_steps, block_size)
    taken = list(accumulate(demand[start : start + block_size]))
    batch, sum_taken = taken[-1], sum(taken)
    s1 = turns * (turns - 1) // 2
    s2 = (turns - 1) * turns * (2 * turns - 1) // 6
    phases = block_size * (block_size - 1) // 2
    weighted = first_ps * (batch * block_size * s1 + turns * sum_taken)
    weighted += slope_ps * (
        block_size * (batch * block_size * s2 + sum_taken * s1)
        + batch * phases * s1
        + turns * sum(map(mul, taken, range(block_size)))
    )
    last = turns * batch
    step_ps = first_ps + slope_ps * (turns * block_size)
    for phase in range(rest):
        last = turns * batch + taken[phase]
        weighted += step_ps * last
        step_ps += slope_ps
    return weighted, last
