"""Compare swapping a request to host memory with computing its KV again.

CPU blocks are the swap space of a rank divided by its block bytes, as in vLLM's v0 engine. A swap
copies a request's blocks out and in again over the host link. A recomputation is the prefill of the
same tokens, in chunks of the token budget, by the step cost of the card. The step of the next token
follows in both cases, so it does not count. (The mode ``auto`` of a run makes the same comparison:
:mod:`kvsim.policies.preemption.auto`.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.documents.plan import SwapCost
from kvsim.traces.common.quantities import PS_PER_S

if TYPE_CHECKING:
    from kvsim.sim.cost.host_link import HostLink
    from kvsim.sim.cost.step_cost import StepCost
    from kvsim.sim.pool.layout import BlockLayout
    from kvsim.sim.pool.memory_terms import PoolRequest


def swap_cost(
    request: PoolRequest, layout: BlockLayout, link: HostLink, cost: StepCost
) -> SwapCost:
    """Compare both at the longest length, and find the length from which swapping is cheaper.

    The search counts whole blocks. There is no such length if recomputing is always cheaper.
    """

    def swap_s(tokens: int) -> float:
        return 2 * link.copy_ps(layout.blocks_for(tokens)) / PS_PER_S

    def work_ps(start: int, stop: int) -> int:
        chunk = request.max_num_batched_tokens
        return sum(
            cost.step([(min(chunk, stop - past), past)], 0, 0)[0]
            for past in range(start, stop, chunk)
        )

    def recompute_s(tokens: int) -> float:
        return (work_ps(0, tokens + 1) - work_ps(tokens, tokens + 1)) / PS_PER_S

    length, size = request.model_len, layout.block_size

    def pays(blocks: int) -> bool:
        tokens = min(blocks * size, length)
        return swap_s(tokens) <= recompute_s(tokens)

    low, high = 1, -(-length // size)
    while low < high:
        middle = (low + high) // 2
        if pays(middle):
            high = middle
        else:
            low = middle + 1
    even = min(low * size, length) if pays(low) else None
    return SwapCost(
        tokens=length,
        swap_s=swap_s(length),
        recompute_s=recompute_s(length),
        break_even_tokens=even,
        cost=cost.name,
        link=str(link),
    )
