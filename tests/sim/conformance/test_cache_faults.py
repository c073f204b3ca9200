"""Each rule of the radix cache that a recorded log can tell, changed: a log is identical no more.

Rows are those of ``vllm-semantics.md`` section 16; the changes are made as in ``test_faults.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kvsim.policies.allocators.radix import RadixAllocator
from kvsim.policies.allocators.radix_cache import RadixCache
from kvsim.policies.allocators.radix_tree import RadixTree
from kvsim.sim.conformance.cache_replay import CacheReplay, replay_cache

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.conformance.cache_log import CacheLog
    from kvsim.traces import Trace

    ChangeSource = Callable[[type, str, str, str], None]
    Edit = tuple[type, str, str, str]
    RecordedCache = Callable[[str], tuple[CacheLog, Trace]]

TOUCH = """\
child.last_access = now
        shared = self._num_shared(child, rest)
"""
TOUCH_IF_WHOLE = """\
shared = self._num_shared(child, rest)
        if shared == len(child.run):
            child.last_access = now
"""
ROOT = 'assert parent is not None, "the root is no candidate"'
PART_OF_A_NODE = (
    ROOT
    + """
        page = self.page_size
        keep = (len(node.run) - num_tokens + dropped) // page * page
        if keep > 0:
            sizes.append(len(node.run) - keep)
            self.num_evictable -= len(node.run) - keep
            node.run = node.run.first(keep)
            self._consider(node)
            break"""
)


def fault(scenario: str, *edits: Edit) -> tuple[str, tuple[Edit, ...]]:
    """Where the fault shows, and what is changed."""
    return scenario, edits


FAULTS = {
    "a match does not refresh": fault(
        "multiturn_tight_p16",
        (RadixTree, "match", "child.last_access = now", "pass"),
    ),
    "an insertion does not refresh": fault(
        "mixed_p1",
        (RadixTree, "insert_below", "child.last_access = now", "pass"),
    ),
    "split half not refreshed by a match": fault(
        "tree_p1",
        (RadixTree, "match", TOUCH, TOUCH_IF_WHOLE),
    ),
    "split half not refreshed by an insertion": fault(
        "mixed_p1",
        (RadixTree, "insert_below", TOUCH, TOUCH_IF_WHOLE),
    ),
    "tokens evicted, not nodes": fault("lru_p1", (RadixTree, "evict", ROOT, PART_OF_A_NODE)),
    "everything needed is evicted, not what lacks": fault(
        "lru_p1",
        (
            RadixCache,
            "start",
            "_evict(needed - self.num_free)",
            "_evict(needed if needed > self.num_free else 0)",
        ),
    ),
    "a childless parent does not join": fault(
        "tree_p1",
        (RadixTree, "evict", "self._consider(parent)", "pass"),
    ),
    "duplicates kept": fault(
        "mixed_p1",
        (RadixCache, "_insert", "self.num_free += num_duplicate", "pass"),
    ),
    "hit not locked while evicting": fault(
        "multiturn_tight_p16_slru",
        (RadixCache, "start", "self.tree.lock(node)", "pass"),
        (
            RadixCache,
            "start",
            "self._leases.add(lease)",
            "self._leases.add(lease); self.tree.lock(node)",
        ),
        (RadixCache, "start", "self.tree.unlock(node)", "pass"),
    ),
    "only the last node locked": fault(
        "tree_p1",
        (RadixTree, "lock", "self._path_up(node)", "[node]"),
        (RadixTree, "unlock", "self._path_up(node)", "[node]"),
    ),
    "lock stays at the hit": fault(
        "tree_p1",
        (RadixCache, "publish", "self.tree.unlock(lease.node)", "pass"),
        (RadixCache, "publish", "self.tree.lock(node)", "pass"),
        (RadixCache, "publish", "lease.node, lease.num_shared = node, num_tokens", "pass"),
    ),
    "lock kept where there is no room": fault(
        "multiturn_tight_p1",
        (RadixCache, "start", "self.tree.unlock(node)", "pass"),
    ),
    "keys and hits not cut to pages": fault(
        "tree_p16",
        (RadixTree, "_cut", "run.first(len(run) - len(run) % self.page_size)", "run"),
        (RadixTree, "_num_shared", "shared - shared % self.page_size", "shared"),
    ),
    "room not rounded up to pages": fault(
        "tree_p16",
        (RadixCache, "start", "self.rounded(num_tokens) - hit", "num_tokens - hit"),
    ),
    "whole prompt may hit": fault(
        "fullhit_p1",
        (RadixCache, "find", "prompt.first(len(prompt) - 1)", "prompt"),
    ),
    "whole prompt may hit, in pages": fault(
        "fullhit_p16",
        (RadixCache, "find", "prompt.first(len(prompt) - 1)", "prompt"),
    ),
    "last token of the output inserted": fault(
        "lru_p1",
        (CacheReplay, "do", "sequence.num_tokens - 1", "sequence.num_tokens"),
    ),
    "prompt not visible before the end": fault(
        "tree_p1",
        (RadixAllocator, "set_keys", "if is_chunk:", "if False:"),
    ),
    "upper half of a split without hits": fault(
        "multiturn_tight_p16_lfu",
        (RadixTree, "_split", "node.num_locks, node.num_hits", "node.num_locks, 0"),
    ),
    "new node without a hit": fault(
        "multiturn_tight_p16_slru",
        (RadixTree, "_append", "node.num_hits = num_hits", "pass"),
    ),
    "an insertion counts no hit on its way": fault(
        "multiturn_tight_p16_slru",
        (RadixTree, "insert_below", "node.num_hits += num_hits", "pass"),
    ),
    "a lookup counts as a hit": fault(
        "multiturn_tight_p16_lfu",
        (
            RadixTree,
            "match",
            "child.last_access = now",
            "child.last_access = now; child.num_hits += 1",
        ),
    ),
    "upper half of a split as old as the whole": fault(
        "lru_p16_fifo",
        (
            RadixTree,
            "_split",
            "upper.num_locks,",
            "upper.created = node.created; upper.num_locks,",
        ),
    ),
}


@pytest.mark.parametrize("mistake", FAULTS)
def test_a_changed_rule_shows(
    mistake: str, recorded_cache: RecordedCache, change_source: ChangeSource
) -> None:
    scenario, edits = FAULTS[mistake]
    assert replay_cache(*recorded_cache(scenario)).difference is None
    for edit in edits:
        change_source(*edit)
    assert replay_cache(*recorded_cache(scenario)).difference is not None
