"""The radix tree by hand (against a twin: ``test_radix_tree_twin.py``)."""

from __future__ import annotations

import pytest

from kvsim.policies.allocators.radix_tree import Node, RadixTree
from kvsim.policies.eviction import make_order
from kvsim.policies.token_run import TokenRun


def make_tree(page_size: int = 1, policy: str = "lru") -> RadixTree:
    return RadixTree(page_size, make_order(policy))


def run(text: str) -> TokenRun:
    """One token a letter."""
    return TokenRun.of(tuple(map(ord, text)))


def node_texts(tree: RadixTree) -> list[str]:
    """Text of each node from the root on."""
    return sorted("".join(map(chr, node.run.names[: node.run.stop])) for node in tree.nodes())


def test_insert_returns_what_was_there() -> None:
    tree = make_tree()
    assert tree.insert(run("abcdef")) == 0
    assert tree.insert(run("abcxyz")) == 3
    assert tree.insert(run("abcdef")) == 6
    assert tree.insert(run("abcdefgh")) == 6
    assert tree.insert(run("")) == 0
    assert node_texts(tree) == ["abc", "abcdef", "abcdefgh", "abcxyz"]
    assert tree.num_evictable == tree.num_tokens == 3 + 3 + 2 + 3


def test_match_splits_where_it_ends() -> None:
    tree = make_tree()
    tree.insert(run("abcdef"))
    node, num_tokens = tree.match(run("abx"))
    assert num_tokens == 2
    assert len(node.run) == 2
    assert node_texts(tree) == ["ab", "abcdef"]
    assert tree.match(run("abx")) == (node, 2)
    assert tree.match(run("q")) == (tree.root, 0)
    assert tree.match(run("")) == (tree.root, 0)
    tree.check_invariants()


def test_pages_cut_keys_and_hits() -> None:
    tree = make_tree(page_size=4)
    assert tree.insert(run("abcdefghij")) == 0
    assert tree.num_tokens == 8
    assert tree.match(run("abcdefgX")).num_tokens == 4
    assert tree.match(run("abc")).num_tokens == 0
    assert tree.insert(run("abcdefgXijkl")) == 4
    assert node_texts(tree) == ["abcd", "abcdefgXijkl", "abcdefgh"]


def test_whole_leaves_go_and_parents_join_at_once() -> None:
    tree = make_tree()
    tree.insert(run("abcdef"))
    tree.insert(run("abcxyz"))
    tree.insert(run("mn"))
    assert tree.evict(0) == []
    assert tree.evict(1) == [3]  # def
    assert node_texts(tree) == ["abc", "abcxyz", "mn"]
    assert tree.evict(4) == [3, 3]  # xyz, then abc: it was used before mn came
    assert tree.evict(9) == [2]
    assert tree.evict(9) == []
    assert tree.num_tokens == 0


def test_a_match_refreshes() -> None:
    tree = make_tree()
    tree.insert(run("ab"))
    tree.insert(run("xyz"))
    tree.match(run("ab"))
    assert tree.evict(1) == [3]


def test_the_lower_half_is_refreshed_too() -> None:
    tree = make_tree()
    tree.insert(run("abcdef"))
    tree.insert(run("xy"))
    tree.match(run("ab"))
    assert tree.evict(1) == [2]  # xy: older than cdef, which nobody asked for


def test_the_upper_half_is_new_but_keeps_its_hits() -> None:
    tree = make_tree(policy="fifo")
    tree.insert(run("abcd"), priority=3)
    tree.insert(run("abcd"))
    tree.insert(run("xyz"))
    upper = tree.match(run("ab")).node
    (lower,) = upper.children.values()
    assert (upper.num_hits, upper.priority) == (lower.num_hits, lower.priority) == (2, 3)
    assert lower.created < upper.created
    assert tree.evict(6) == [2, 3, 2]  # cd, xyz, ab


def test_locks_protect_the_path() -> None:
    tree = make_tree()
    tree.insert(run("abcdef"))
    tree.insert(run("abcxyz"))
    node = tree.match(run("abcx")).node
    tree.lock(node)
    assert (tree.num_evictable, tree.num_protected) == (3 + 2, 3 + 1)
    assert tree.evict(99) == [3, 2]  # def and yz
    assert tree.evict(99) == []
    tree.lock(node)
    tree.unlock(node)
    assert tree.evict(99) == []
    tree.unlock(node)
    assert tree.evict(99) == [1, 3]
    tree.lock(tree.root)
    tree.unlock(tree.root)
    tree.check_invariants()


def test_a_locked_node_may_be_split() -> None:
    tree = make_tree()
    tree.insert(run("abcdef"))
    node = tree.match(run("abcdef")).node
    tree.lock(node)
    tree.match(run("abc"))
    assert tree.num_protected == 6
    tree.unlock(node)
    assert tree.num_evictable == 6
    tree.check_invariants()


def test_unlocking_twice() -> None:
    tree = make_tree()
    tree.insert(run("ab"))
    node = tree.match(run("ab")).node
    with pytest.raises(AssertionError, match="is unlocked twice"):
        tree.unlock(node)


def broken(change: str) -> RadixTree:
    """A tree of three nodes of pages of two tokens, with one thing wrong."""
    tree = make_tree(page_size=2)
    tree.insert(run("abcdef"))
    tree.insert(run("abxy"))
    leaf = tree.match(run("abxy")).node
    parent = leaf.parent
    assert parent is not None
    tree.check_invariants()
    if change == "head":
        parent.children[run("qr").head(2)] = parent.children.pop(leaf.run.head(2))
    elif change == "start":
        leaf.run = leaf.run.first(0)
        parent.children = {leaf.run.head(2): leaf}
    elif change == "page":
        leaf.run = leaf.run.first(1)
        parent.children = {leaf.run.head(2): leaf}
    elif change == "locks":
        leaf.num_locks = 1
    elif change == "candidate":
        tree._order.held(leaf)
    elif change == "evictable":
        tree.num_evictable += 1
    elif change == "protected":
        tree.num_protected += 1
    elif change == "gone":
        tree._order.released(Node(run("zz"), tree.root, 0))
    elif change == "gap":
        parent.run = parent.run.first(0)
        tree.root.children = {parent.run.head(2): parent}
    return tree


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("head", "is not among its parent's children"),
        ("gap", "is empty"),
        ("start", "is empty"),
        ("page", "has a partial page"),
        ("locks", "is locked less often than its children"),
        ("candidate", r"is wrongly \(no\) candidate"),
        ("evictable", "evictable count is off"),
        ("protected", "protected count is off"),
        ("gone", "a node that is gone is a candidate"),
    ],
)
def test_invariants_see(change: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        broken(change).check_invariants()
