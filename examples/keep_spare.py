"""An allocator with paged blocks that keeps one block in ten free at each admission.

kvsim simulate TRACE --set allocator.kind=examples.keep_spare:KeepSpare
"""

from kvsim.policies.allocators import PagedAllocator, block_order


class KeepSpare(PagedAllocator):
    """Keep blocks for running requests to grow into, so that fewer of them are preempted."""

    def __init__(self, context):
        super().__init__(context.config, block_order(context))
        self._block_size = context.config.block_size
        self._num_spare = context.config.usable_blocks // 10

    def refusal(self, sequence, hit, new_tokens, *, idle):
        reason = super().refusal(sequence, hit, new_tokens, idle=idle)
        num_needed = -(-new_tokens // self._block_size)
        if reason is None and not idle and self.pool.num_free - num_needed < self._num_spare:
            return "admission rule"
        return reason
