"""An eviction policy as a function: entries with many hits stay, tails of long prompts are evicted.

kvsim simulate TRACE --set eviction.policy=examples.keep_shared:keep_shared
"""


def keep_shared(entry):
    """Evict the fewest hits first, then the largest position in a prompt, then the oldest use."""
    return (entry.num_hits, -entry.past, entry.last_access)
