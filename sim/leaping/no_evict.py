"""The leaper for ``no-evict``: the same leaps with another admission rule.

Beyond the leaper's invariants this relies on two more. Nobody is preempted, so memory never runs
out in a leap. And what running members may still take falls with each block that they take, so the
spare blocks that nobody was promised are the same in all calls of a leap: a head that does not fit
stays out. Chunks are whole blocks, so one that is cut leaves less than a block of budget: still at
most one sequence is in mid-prefill, and while it gets nothing it gets nothing in the whole leap.
But where less than a block of budget is left, a head that loses a cached block waits for another
reason: for the budget of a whole block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.cost.equal_steps import steps_within
from kvsim.sim.leaping.leaper import Leaper

if TYPE_CHECKING:
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.leaping.cache.pieces import Found
    from kvsim.sim.leaping.state import Member


class PromiseLeaper(Leaper):
    """Mirrors ``policies/batching/no_evict.py``."""

    __slots__ = ("_num_free_hits",)

    def _read_rules(self, config: SchedulerConfig, seed: int) -> None:
        super()._read_rules(config, seed)
        self._num_free_hits = 0  # blocks that the head would find, and nobody holds

    def _cut(self, wanted: int, limit: int) -> int:
        if wanted <= limit:
            return wanted
        return limit // self._block_size * self._block_size

    def _refusal(self, member: Member, found: Found, tokens: int) -> str | None:
        self._num_free_hits = found.num_free
        why = super()._refusal(member, found, tokens)
        if why is not None:
            return why
        wanted = self._longest_blocks(member.index) - found.num_blocks + found.num_free
        promised = sum(
            self._longest_blocks(one.index) - self._num_held(one) for one in self._running.values()
        )
        return "admission rule" if wanted > self._cache.num_free - promised else None

    def _within_memory(self, steps: int) -> int:
        """As the leaper's; a leap ends where the head may lose a hit and the rest is no block."""
        steps = super()._within_memory(steps)
        is_refused = self._cause in {"blocks", "admission rule"}
        if is_refused and self._num_free_hits and self._budget - self._batch < self._block_size:
            phase = self._v % self._block_size
            steps = min(steps, 1 + steps_within(self._demand, phase, self._batch, 0))
        return steps

    def _longest_blocks(self, index: int) -> int:
        """Blocks of a request whose answer is as long as its client, or the model, allows."""
        requests = self._requests
        tokens = min(
            requests.prompt_tokens[index] + requests.max_tokens[index], self._max_model_len
        )
        return -(-tokens // self._block_size)

    def _num_held(self, member: Member) -> int:
        """Blocks that a running member holds for this call."""
        if member.decoding:
            return -(-(self._v - member.x) // self._block_size)
        return -(-member.num_computed_tokens // self._block_size)
