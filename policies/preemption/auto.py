"""Swap or recompute: the cheaper one for each victim, by the run's cost model.

    swap       = copies out + copies in                       of the blocks that it holds
    recompute  = work(hit -> num_tokens) - work(num_computed_tokens -> num_tokens)

``work`` is prefill in chunks of the token budget, alone. The second term is needed in both cases,
so it does not count. At preemption it is not known how much of the victim the prefix cache will
still hold later. The expected hit is a share of the victim's full blocks: the share of all victims
that returned so far. Before the first victim returns, the share is 1 (0 without a prefix cache).

When the victim runs again, the cache is asked how much of it the cache holds then, swapped or not.
The choice was *right* if it was the cheaper one with this hit in place of the expected hit. (With
the other choice the cache might have held something else. That run is not simulated.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvsim.policies.preemption.mode import Judgement, Swap

if TYPE_CHECKING:
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence


class _Choice(NamedTuple):
    """A choice at a preemption; ``hittable``: tokens of the victim's full blocks."""

    swapped: bool
    swap_ps: int
    num_computed_tokens: int
    hittable: int


class Auto(Swap):
    """See the module docstring; if both cost the same, the victim is recomputed."""

    def __init__(self, context: PolicyContext) -> None:
        super().__init__(context)
        assert context.cost is not None, "an engine runs"
        assert context.link is not None, "a mode that swaps has a link to the host"
        self._config = context.config
        self._cost = context.cost
        self._link = context.link
        self._open: dict[int, _Choice] = {}
        self._hittable_tokens = 0
        self._hit_tokens = 0

    def swaps(self, sequence: Sequence, num_blocks: int) -> bool:
        """Whether swapping is cheaper; always false if the host is full."""
        if not super().swaps(sequence, num_blocks):
            return False
        swap_ps = 2 * self._link.copy_ps(num_blocks)
        hittable = self._hittable(sequence)
        again_ps = self._again_ps(
            sequence, sequence.num_computed_tokens, self._expected_hit(hittable)
        )
        swapped = swap_ps < again_ps
        self._open[sequence.index] = _Choice(
            swapped, swap_ps, sequence.num_computed_tokens, hittable
        )
        return swapped

    def returned(self, sequence: Sequence, hit_tokens: int) -> Judgement | None:
        """Check the earlier choice and learn from the hit."""
        choice = self._open.pop(sequence.index, None)
        if choice is None:
            return None
        self._hittable_tokens += choice.hittable
        self._hit_tokens += min(hit_tokens, choice.hittable)
        again_ps = self._again_ps(sequence, choice.num_computed_tokens, hit_tokens)
        swap_ps = choice.swap_ps
        right = swap_ps <= again_ps if choice.swapped else again_ps <= swap_ps
        return Judgement(choice.swapped, right)

    def _hittable(self, sequence: Sequence) -> int:
        """Return the tokens of the full blocks that a lookup could find at best."""
        if not self._config.enable_prefix_caching:
            return 0
        size = self._config.block_size
        return min(sequence.num_computed_tokens, sequence.num_tokens - 1) // size * size

    def _expected_hit(self, hittable: int) -> int:
        if not self._hittable_tokens:
            return hittable
        size = self._config.block_size
        return hittable * self._hit_tokens // self._hittable_tokens // size * size

    def _again_ps(self, sequence: Sequence, num_computed_tokens: int, hit_tokens: int) -> int:
        """Return the time to compute again what the prefix cache does not return."""
        known = sequence.num_tokens
        return max(self._work_ps(hit_tokens, known) - self._work_ps(num_computed_tokens, known), 0)

    def _work_ps(self, start: int, stop: int) -> int:
        """Return the prefill time from ``start`` to ``stop``, alone, in chunks of the budget."""
        chunk = self._config.max_num_batched_tokens
        return sum(
            self._cost.prefill_ps(min(chunk, stop - past), past)
            for past in range(start, stop, chunk)
        )
