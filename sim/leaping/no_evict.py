"""The leaper for ``no-evict``: the same leaps with another admission rule.

This relies on two more conditions. First, no request is preempted, so memory never runs out in a
leap. Second, each block that a running request takes lowers what it may still take. So the number
of unpromised spare blocks is the same in all calls of a leap, and a head that does not fit stays
out.

Chunks are whole blocks. A chunk that is cut leaves less than a block of budget, so at most one
sequence has a partly computed prompt. If it gets no tokens in one call, it gets none in the whole
leap. One case is special: less than a block of budget is left, and the head loses a cached block.
Then the head waits for another reason, the budget of a whole block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.cost.equal_steps import steps_within
from kvsim.sim.leaping.leaper import Leaper

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.leaping.cache.pieces import Found
    from kvsim.sim.leaping.state import Running


class PromiseLeaper(Leaper):
    """Mirrors ``policies/batching/no_evict.py``."""

    __slots__ = ("_num_free_hits",)

    def _read_rules(self, config: SchedulerConfig, seed: int) -> None:
        super()._read_rules(config, seed)
        self._num_free_hits = 0  # blocks that the head would find and no request holds

    def _cut(self, wanted: int, limit: int) -> int:
        if wanted <= limit:
            return wanted
        return limit // self._block_size * self._block_size

    def _refusal(self, request: Running, found: Found, tokens: int) -> str | None:
        self._num_free_hits = found.num_free
        why = super()._refusal(request, found, tokens)
        if why is not None:
            return why
        wanted = self._longest_blocks(request.index) - found.num_blocks + found.num_free
        promised = sum(
            self._longest_blocks(one.index) - self._num_held(one) for one in self._running.values()
        )
        return "admission rule" if wanted > self._cache.num_free - promised else None

    def _within_memory(self, steps: int) -> int:
        """As in the leaper; a leap also ends where the head may lose a hit and waits for budget."""
        steps = super()._within_memory(steps)
        is_refused = self._cause in {"blocks", "admission rule"}
        if is_refused and self._num_free_hits and self._budget - self._batch < self._block_size:
            phase = self._v % self._block_size
            steps = min(steps, 1 + steps_within(self._demand, phase, self._batch, 0))
        return steps

    def _longest_blocks(self, index: int) -> int:
        """Return the blocks of a request with the longest output that client and model allow."""
        requests = self._requests
        tokens = min(
            requests.prompt_tokens[index] + requests.max_tokens[index], self._max_model_len
        )
        return -(-tokens // self._block_size)

    def _num_held(self, request: Running) -> int:
        """Return the blocks that a running request holds for this call."""
        if request.decoding:
            return -(-(self._v - request.x) // self._block_size)
        return -(-request.num_computed_tokens // self._block_size)
