"""Swap or recompute, whichever the run's cost model calls cheaper for this victim.

    swap       = copies out + copies in                         of the blocks it holds
    recompute  = work(hit -> known) - work(computed -> known)   what it has to do twice

``work`` is prefill in chunks of the token budget, alone; the second term is due either way. What
the prefix cache will still hold of the victim is not known when it is put out. It is expected to be
the same share of its full blocks as that of all victims that came back so far; before the first
one, all of them (none without a prefix cache).

When the victim runs again the cache is asked what it holds of it then, swapped or not. The choice
was *right* if it was the cheaper one with that hit in place of the expected one. (Had the other
been taken, the cache might have held something else: that run is not simulated.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvsim.policies.preemption.mode import Judgement, Swap

if TYPE_CHECKING:
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence


class _Choice(NamedTuple):
    """Made when a victim was put out; ``hittable``: tokens of its full blocks."""

    swapped: bool
    swap_ps: int
    num_computed_tokens: int
    hittable: int


class Auto(Swap):
    """See the module docstring; a tie is computed again."""

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
        """Whether the way to the host and back is cheaper; not weighed where that is full."""
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
        """Judge the choice and learn from the hit."""
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
        """Tokens of the full blocks that a look-up could find at best."""
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
        """Prefill from token ``start`` up to ``stop``, alone, in chunks of the budget."""
        chunk = self._config.max_num_batched_tokens
        return sum(
            self._cost.prefill_ps(min(chunk, stop - past), past)
            for past in range(start, stop, chunk)
        )
