"""Tokens or pages with a radix tree of prefixes (SGLang 0.5.23, ``mem_cache/radix_cache.py``).

It differs from paged blocks with a hash-chained cache (``paged.py``):

* other requests find a prompt after each of its chunks has *run*. They find an output after its
  request has finished, without the last token, because its KV is never computed. A preempted
  request loses what it had not published (SGLang's retraction inserts nothing);
* tokens that the tree has already are freed at once, so nothing is stored twice;
* a lookup refreshes what it finds, even if the head of the queue then finds no room;
* whole unlocked leaves are evicted, until the missing tokens are covered.

Hits are whole pages; with pages of one token, they are exact to the token. SGLang's scheduler is
not part of this file. The batching policy decides which request is admitted, grows or is preempted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvsim.policies.allocators.base import Hit, Usage
from kvsim.policies.allocators.radix_cache import Admission, Lease, RadixCache

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kvsim.policies.allocators.relocations import Relocations
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence


@dataclass(slots=True)
class Holding:
    """What one sequence holds: a lease, and how many of its tokens have been computed.

    ``num_prefill``: the tokens known at its admission. They are published chunk by chunk.
    """

    lease: Lease
    num_prefill: int
    num_computed: int


class RadixAllocator:
    """Pages and radix tree of one engine; see the module docstring."""

    uses_oracle = False
    relocations: Relocations | None = None

    def __init__(self, context: PolicyContext) -> None:
        config = context.config
        self.page_size = config.block_size
        pool_tokens = config.usable_blocks * config.block_size
        self.cache = RadixCache(pool_tokens, config.block_size, config.eviction.policy, context)
        self._holdings: dict[int, Holding] = {}
        watermark_pages = int(config.batching.watermark * config.num_gpu_blocks)
        self._watermark_tokens = watermark_pages * config.block_size
        self._reserve = config.batching.scheduler_reserve_full_isl
        self._max_model_len = config.max_model_len

    def lease_of(self, sequence: Sequence) -> Lease:
        """Return the lease of a running sequence."""
        return self._holdings[sequence.index].lease

    def num_computed(self, sequence: Sequence) -> int:
        """Return the tokens of a running sequence that have run."""
        return self._holdings[sequence.index].num_computed

    @property
    def num_spare(self) -> int:
        """Number of free pages and evictable pages."""
        cache = self.cache
        return (cache.num_free + cache.tree.num_evictable) // self.page_size

    def num_wanted(self, sequence: Sequence, hit: Hit, tokens: int) -> int:
        """Return the pages beyond the hit, plus the hit's pages that no sequence has locked."""
        node, _ = self.cache.find(sequence.run(sequence.num_tokens))
        lacking = self.cache.rounded(min(tokens, self._max_model_len)) - hit.tokens
        return (max(lacking, 0) + self.cache.tree.num_unlocked(node)) // self.page_size

    def num_lacking(self, sequence: Sequence, tokens: int) -> int:
        """Return the pages that the lease needs."""
        held = self.lease_of(sequence).num_tokens
        return max(self.cache.rounded(tokens) - held, 0) // self.page_size

    def find_hit(self, sequence: Sequence) -> Hit:
        """Return the longest hit, at most all known tokens but one; refreshes it."""
        _, hit_tokens = self.cache.find(sequence.run(sequence.num_tokens))
        return Hit(hit_tokens, (), hit_tokens)

    def refusal(self, sequence: Sequence, hit: Hit, new_tokens: int, *, idle: bool) -> str | None:
        """Return why a waiting sequence cannot be admitted: ``blocks`` or ``admission rule``.

        The result is ``None`` if it can be admitted. The rules are those of paged blocks; all
        evictable pages count as free.
        """
        keep = 0 if idle else self._watermark_tokens
        node, hit_tokens = self.cache.find(sequence.run(sequence.num_tokens))
        assert hit_tokens == hit.tokens, "the hit is stale"
        available = self.cache.num_available(node)
        chunk = self.cache.rounded(min(hit_tokens + new_tokens, self._max_model_len)) - hit_tokens
        if chunk > available:
            return "blocks"
        whole = self.cache.rounded(min(sequence.num_tokens, self._max_model_len)) - hit_tokens
        if chunk + keep > available or (self._reserve and whole + keep > available):
            return "admission rule"
        return None

    def admit(self, sequence: Sequence, hit: Hit, new_tokens: int) -> None:
        """Lock the hit and take the pages of the chunk; evict pages if some are missing."""
        admission = self.start(sequence, hit.tokens + new_tokens)
        assert admission.hit_tokens == hit.tokens, "the hit is stale"
        assert admission.lease is not None, f"{sequence} was admitted, but there is no room"

    def start(self, sequence: Sequence, num_tokens: int) -> Admission:
        """Try to admit with room for ``num_tokens`` in total; return what was found and evicted.

        Entries of requests with a smaller ``priority`` (admitted sooner) are kept longer.
        """
        prompt = sequence.run(sequence.num_tokens)
        admission = self.cache.start(
            prompt, num_tokens, -sequence.priority, counts=not sequence.num_preemptions
        )
        if admission.lease is not None:
            self._holdings[sequence.index] = Holding(
                admission.lease, sequence.num_tokens, admission.hit_tokens
            )
        return admission

    def grow(self, sequence: Sequence, new_tokens: int) -> bool:
        """Take the pages for ``new_tokens`` more, evicting if needed; return False without room."""
        return self.cache.extend(self.lease_of(sequence), sequence.num_computed_tokens + new_tokens)

    def set_keys(self, sequence: Sequence, tokens: int) -> None:
        """Publish a chunk of the prompt that has run; :meth:`finish` publishes outputs.

        Only the last chunk counts as a hit, so that a request does not hit itself.
        """
        holding = self._holdings[sequence.index]
        is_chunk = holding.num_computed < tokens <= holding.num_prefill
        holding.num_computed = tokens
        if is_chunk:
            num_hits = int(tokens == holding.num_prefill)
            self.cache.publish(holding.lease, sequence.run(tokens), num_hits=num_hits)

    def finish(self, sequence: Sequence) -> None:
        """Publish what a sequence has computed, and free the rest."""
        holding = self._holdings.pop(sequence.index)
        self.cache.finish(holding.lease, sequence.run(holding.num_computed))

    def release(self, sequence: Sequence) -> None:
        """Free what a sequence has not published."""
        self.cache.cancel(self._holdings.pop(sequence.index).lease)

    @property
    def num_evicted(self) -> int:
        """Number of cached pages evicted so far."""
        return self.cache.num_evicted // self.page_size

    def takes_memory(self, sequence: Sequence, tokens: int) -> bool:
        """Whether a page begins between ``sequence.num_computed_tokens`` and ``tokens``."""
        return self.cache.rounded(tokens) > self.cache.rounded(sequence.num_computed_tokens)

    def num_empty(self, sequence: Sequence, tokens: int) -> int:
        """Return the free end of a sequence's last page."""
        return -tokens % self.page_size

    def usage(self, running: Iterable[Sequence]) -> Usage:
        """Return the slots by state; O(running).

        Unpublished tokens have no key yet, so they are never duplicates.
        """
        cache, empty = self.cache, 0
        shared = cache.tree.num_evictable - cache.tree.num_tokens
        for sequence in running:
            lease = self.lease_of(sequence)
            empty += lease.num_tokens - sequence.num_computed_tokens
            shared += lease.num_shared
        return Usage(cache.num_free, cache.tree.num_evictable, empty, 0, 0, shared)

    def fragmented(self, sequence: Sequence) -> bool:
        """Return False: any free page can be used."""
        return False

    def num_held(self, sequence: Sequence) -> int:
        """Return the pages of a sequence, including its hit."""
        return self.lease_of(sequence).num_tokens // self.page_size

    def owners(self) -> set[int]:
        """Return the sequences with a lease."""
        return set(self._holdings)

    def check_invariants(self) -> None:
        """Verify pool, tree and leases; O(nodes + paths)."""
        self.cache.check_invariants()
        for index, holding in self._holdings.items():
            lease, num_computed = holding.lease, holding.num_computed
            in_room = lease.num_shared <= num_computed <= lease.num_tokens
            assert in_room, f"request {index} has computed {num_computed} tokens in {lease}"
