"""Swapping a request to host memory against computing its KV again.

CPU blocks are the swap space of a rank over its block bytes, as vLLM's v0 engine counted them. A
swap moves a request's KV out and in again over the host link (datasheet rate); a recomputation is
the prefill of as many tokens, in chunks of the token budget, by the step cost of the card.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvsim.sim.cost import StepCost
    from kvsim.sim.memory_terms import PoolRequest
    from kvsim.sim.models import ModelSpec

PS_PER_S = 10**12


@dataclass(frozen=True, slots=True)
class SwapCost:
    """Seconds for one request of ``tokens``, and the length from which swapping is quicker.

    ``break_even_tokens`` is ``None`` where recomputing is quicker up to ``tokens``.
    """

    tokens: int
    swap_s: float
    recompute_s: float
    break_even_tokens: int | None
    cost: str


def swap_cost(request: PoolRequest, on_rank: ModelSpec, cost: StepCost) -> SwapCost | None:
    """Compare both at the longest length; ``None`` where the card has no host link."""
    rate = request.hardware.host_link_bytes_per_s
    if not rate:
        return None

    def swap_s(tokens: int) -> float:
        return 2 * on_rank.kv_bytes(tokens, request.kv_dtype, request.tp) / rate

    def recompute_s(tokens: int) -> float:
        chunk = request.max_num_batched_tokens
        pieces = [(min(chunk, tokens - past), past) for past in range(0, tokens, chunk)]
        return sum(cost.step([piece], 0, 0)[0] for piece in pieces) / PS_PER_S

    length = request.model_len
    low, high = 1, length
    while low < high:
        middle = (low + high) // 2
        if swap_s(middle) <= recompute_s(middle):
            high = middle
        else:
            low = middle + 1
    wins = swap_s(low) <= recompute_s(low)
    return SwapCost(length, swap_s(length), recompute_s(length), low if wins else None, cost.name)
