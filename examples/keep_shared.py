"""An eviction order of one's own, as a sort key: what many asked for stays, long prompts' tails go.

kvsim simulate TRACE --set eviction.policy=examples.keep_shared:keep_shared
"""


def keep_shared(entry):
    """Fewest hits first; of these the one deepest in its prompt, then the stalest."""
    return (entry.num_hits, -entry.past, entry.last_access)
