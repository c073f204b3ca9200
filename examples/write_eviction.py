# %% [markdown]
# # Write an eviction policy
#
# Which cached block is evicted first? A policy is a function from a cached entry to a tuple, and
# the entry with the smallest tuple is evicted first. This policy starts from LRU and adds two
# guesses about chats. A block that was hit will be hit again. The head of a prompt is worth more
# than its tail, because a hit needs all blocks before it. `python examples/write_eviction.py` runs
# everything. Jupyter and VS Code open the file cell by cell.

# %%
from kvsim.sim import Scenario, simulate
from kvsim.sim.conformance.policy_check import check_policy
from kvsim.traces import bundled_path, read_trace


def heads_stay(entry):
    """Rank by last use in ticks, plus 5,000 after a hit, minus 5 for each token before it."""
    hit_again = entry.num_hits > 1
    return (entry.last_access + 5000 * hit_again - 5 * entry.past,)


# %% [markdown]
# First check the rules: every request ends, memory adds up, and equal inputs give equal decisions.

# %%
for finding in check_policy("eviction", "__main__:heads_stay", num_runs=10):
    print(f"{finding.name:8} {finding.fault or 'ok'}")

# %% [markdown]
# Then compare it on 600 requests of a chat trace, with a pool that is too small for their blocks. A
# scenario needs only `module:name`. In a script or notebook the module is `__main__`. The last row
# reads the future. No engine can do that, but the row shows how much room is left.

# %%
trace = read_trace(bundled_path("chat-2k"), limit=600)
pool = {"engine.kv_memory": "2GiB", "engine.max_model_len": 8192}
print(f"\n{'eviction':22}  hit rate   TTFT mean   blocks evicted")
for policy in ("lru", "lfu", "__main__:heads_stay", "furthest-next-use"):
    run = simulate(trace, Scenario.load().with_values({**pool, "eviction.policy": policy}))
    cache, ttft = run.summary.cache, run.summary.latency.ttft_s
    print(
        f"{policy:22}  {cache.hit_percent:6.2f} %  {1000 * ttft.mean:7.2f} ms"
        f"  {cache.evicted_blocks:13,}"
    )
