# %% [markdown]
# # Write an eviction policy
#
# Which cached block goes first when room is needed? A policy is a function from a cached entry to a
# tuple; the smallest goes. The one here starts from LRU, and adds two guesses about chats: what was
# asked for twice will be asked for again, and the head of a prompt is worth more than its tail,
# since a hit needs all blocks before it. `python examples/write_eviction.py` runs all of it;
# Jupyter and VS Code open it cell by cell.

# %%
from kvsim.sim import Scenario, simulate
from kvsim.sim.conformance.policy_check import check_policy
from kvsim.traces import bundled_path, read_trace


def heads_stay(entry):
    """Last use in ticks: 5,000 later for what was hit again, 5 earlier for each token before it."""
    hit_again = entry.num_hits > 1
    return (entry.last_access + 5000 * hit_again - 5 * entry.past,)


# %% [markdown]
# First the rules: does every request end, does memory add up, do equal inputs give equal decisions?

# %%
for finding in check_policy("eviction", "__main__:heads_stay", num_runs=10):
    print(f"{finding.name:8} {finding.fault or 'ok'}")

# %% [markdown]
# Then the question it was written for: 600 requests of a chat trace against a pool that is too
# small for them. `module:name` is all that a scenario needs; in a script or notebook the module is
# `__main__`. The last row reads the future: nobody can build it, but it says what is left to win.

# %%
trace = read_trace(bundled_path("chat-2k"), limit=600)
pool = {"engine.kv_memory": "2GiB", "engine.max_model_len": 8192}
print(f"\n{'eviction':22}  hit rate   TTFT mean   blocks evicted")
for policy in ("lru", "lfu", "__main__:heads_stay", "furthest-next-use"):
    run = simulate(trace, Scenario.load().with_values({**pool, "eviction.policy": policy}))
    cache, ttft = run.summary["cache"], run.summary["latency"]["ttft_s"]
    print(
        f"{policy:22}  {cache['hit_percent']:6.2f} %  {1000 * ttft['mean']:7.2f} ms"
        f"  {cache['evicted_blocks']:13,}"
    )
