"""Tokens or pages with a radix tree of prefixes (SGLang 0.5.23, ``mem_cache/radix_cache.py``).

Differs from paged blocks with a hash-chained cache (``paged.py``) in what is found, when, and how
it goes:

* a prompt is found by others after each of its chunks has *run*, an answer when its request has
  ended, without the last token, whose KV is never computed; what a preempted request had not
  published is lost (SGLang's retraction inserts nothing);
* what the tree has already is given back at once, so nothing is there twice;
* a lookup refreshes what it finds, for the queue's head too that then finds no room;
* whole unlocked leaves are evicted, as many as cover the tokens that lack.

Hits are whole pages: with pages of one token, exact to the token. SGLang's scheduler is no part of
this: which request enters, grows or is preempted is the batching's affair.
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
    """What one sequence owns: a lease, and how many of its tokens have been computed by now.

    ``num_prefill``: the tokens known at its admission; those are published chunk by chunk.
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
        """What a running sequence holds of the cache."""
        return self._holdings[sequence.index].lease

    def num_computed(self, sequence: Sequence) -> int:
        """Tokens of a running sequence that have run."""
        return self._holdings[sequence.index].num_computed

    @property
    def num_spare(self) -> int:
        """Free pages, and those that could be evicted."""
        cache = self.cache
        return (cache.num_free + cache.tree.num_evictable) // self.page_size

    def num_wanted(self, sequence: Sequence, hit: Hit, tokens: int) -> int:
        """Pages beyond the hit, and the hit's own where nobody has locked them."""
        node, _ = self.cache.find(sequence.run(sequence.num_tokens))
        lacking = self.cache.rounded(min(tokens, self._max_model_len)) - hit.tokens
        return (max(lacking, 0) + self.cache.tree.num_unlocked(node)) // self.page_size

    def num_lacking(self, sequence: Sequence, tokens: int) -> int:
        """Pages that the lease lacks."""
        held = self.lease_of(sequence).num_tokens
        return max(self.cache.rounded(tokens) - held, 0) // self.page_size

    def find_hit(self, sequence: Sequence) -> Hit:
        """Longest hit, at most all known tokens but one; refreshes it."""
        _, hit_tokens = self.cache.find(sequence.run(sequence.num_tokens))
        return Hit(hit_tokens, (), hit_tokens)

    def refusal(self, sequence: Sequence, hit: Hit, new_tokens: int, *, idle: bool) -> str | None:
        """Why a waiting sequence cannot enter now: ``blocks``, ``admission rule`` or ``None``.

        The rules are those of paged blocks, with all that could be evicted counted as free.
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
        """Lock the hit and take the chunk's pages, evicting what lacks."""
        admission = self.start(sequence, hit.tokens + new_tokens)
        assert admission.hit_tokens == hit.tokens, "the hit is stale"
        assert admission.lease is not None, f"{sequence} was admitted, but there is no room"

    def start(self, sequence: Sequence, num_tokens: int) -> Admission:
        """Try to admit with room for ``num_tokens`` in all; tell what was found and evicted.

        Requests that are served sooner (a smaller ``priority``) leave what is kept longer.
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
        """Take the pages that ``new_tokens`` more need, evicting what lacks; False if it cannot."""
        return self.cache.extend(self.lease_of(sequence), sequence.num_computed_tokens + new_tokens)

    def set_keys(self, sequence: Sequence, tokens: int) -> None:
        """Publish a chunk of the prompt that has run; answers are published by :meth:`finish`.

        Only the last chunk counts as a hit, so that a request does not hit itself.
        """
        holding = self._holdings[sequence.index]
        is_chunk = holding.num_computed < tokens <= holding.num_prefill
        holding.num_computed = tokens
        if is_chunk:
            num_hits = int(tokens == holding.num_prefill)
            self.cache.publish(holding.lease, sequence.run(tokens), num_hits=num_hits)

    def finish(self, sequence: Sequence) -> None:
        """Publish what a sequence has computed, and take back the rest."""
        holding = self._holdings.pop(sequence.index)
        self.cache.finish(holding.lease, sequence.run(holding.num_computed))

    def release(self, sequence: Sequence) -> None:
        """Take back what a sequence has not published."""
        self.cache.cancel(self._holdings.pop(sequence.index).lease)

    @property
    def num_evicted(self) -> int:
        """Cached pages lost so far."""
        return self.cache.num_evicted // self.page_size

    def takes_memory(self, sequence: Sequence, tokens: int) -> bool:
        """Whether a page begins between ``sequence.num_computed_tokens`` and ``tokens``."""
        return self.cache.rounded(tokens) > self.cache.rounded(sequence.num_computed_tokens)

    def num_empty(self, sequence: Sequence, tokens: int) -> int:
        """Free end of a sequence's last page."""
        return -tokens % self.page_size

    def usage(self, running: Iterable[Sequence]) -> Usage:
        """Slots by what they hold; O(running).

        What is not published has no key yet, so it is no duplicate, whatever its tokens.
        """
        cache, empty = self.cache, 0
        shared = cache.tree.num_evictable - cache.tree.num_tokens
        for sequence in running:
            lease = self.lease_of(sequence)
            empty += lease.num_tokens - sequence.num_computed_tokens
            shared += lease.num_shared
        return Usage(cache.num_free, cache.tree.num_evictable, empty, 0, 0, shared)

    def fragmented(self, sequence: Sequence) -> bool:
        """Never: any free page will do."""
        return False

    def num_held(self, sequence: Sequence) -> int:
        """Pages of a sequence, its hit included."""
        return self.lease_of(sequence).num_tokens // self.page_size

    def owners(self) -> set[int]:
        """Sequences with a lease."""
        return set(self._holdings)

    def check_invariants(self) -> None:
        """Verify pool, tree and leases; O(nodes + paths)."""
        self.cache.check_invariants()
        for index, holding in self._holdings.items():
            lease, num_computed = holding.lease, holding.num_computed
            in_room = lease.num_shared <= num_computed <= lease.num_tokens
            assert in_room, f"request {index} has computed {num_computed} tokens in {lease}"
