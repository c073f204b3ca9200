"""Time per output token over the turns of one long conversation, from a step cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kvsim.sim.cost.step_cost import StepCost


class Turn(NamedTuple):
    """One answer: the context it starts from, and its mean time per output token in s."""

    number: int
    context: int
    tpot_s: float


def conversation(
    cost: StepCost, *, num_turns: int = 50, asked: int = 120, answered: int = 200
) -> list[Turn]:
    """Turns of a lone user: each asks ``asked`` tokens and is answered ``answered`` (>= 2).

    All earlier turns are in the cache; the mean of k steps ``a + b*j`` is ``a + b*(k - 1)/2``.
    """
    turns = []
    context = 0
    for number in range(1, num_turns + 1):
        context += asked
        steps = answered - 1
        total_ps, left, tokens = 0, steps, context + 1
        while left:
            run = cost.decode_run(1, tokens)
            count = left if run.num_steps is None else min(left, run.num_steps)
            total_ps += count * run.first_ps + run.slope_ps * count * (count - 1) // 2
            tokens += count
            left -= count
        turns.append(Turn(number, context, total_ps / steps / 1e12))
        context += answered
    return turns
