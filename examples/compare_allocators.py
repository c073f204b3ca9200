# %% [markdown]
# # Compare allocators on one trace
#
# What does it cost to reserve the longest answer, and what do block tables and shared prefixes
# bring? The same 300 chat requests, 30 times as fast as they came, with 4 GiB for KV: only the
# owner of the memory changes. `python examples/compare_allocators.py [FOLDER]` runs all of it;
# Jupyter and VS Code open it cell by cell.

# %%
import sys
from pathlib import Path

from kvsim.sim import Scenario, compare
from kvsim.traces import bundled_path, read_trace

trace = read_trace(bundled_path("chat-2k"), limit=300)
pool = {"engine.kv_memory": "4GiB", "engine.max_model_len": 8192, "slo.ttft": "2s"}
scenarios = {
    "longest reserved": Scenario.load("orca-max").with_values(pool),
    "length known": Scenario.load("orca-oracle").with_values(pool),
    "paged": Scenario.load().with_values({**pool, "engine.enable_prefix_caching": False}),
    "paged, shared prefixes": Scenario.load().with_values(pool),
}

# %% [markdown]
# One run each, all in this process. Each is a whole `Run`, as `simulate` returns it: its `summary`
# has numbers that the page on metrics defines.

# %%
found = compare(trace, scenarios, jobs=1, rate_scale=30)
print(f"{'':22}  tokens in KV   running   TTFT p50   good req/s")
for name, run in found.runs.items():
    waiting = run.summary.memory.while_waiting.states_percent
    print(
        f"{name:22}  {waiting.token:10.1f} %  {run.series['running'].mean():8.1f}"
        f"  {run.summary.latency.ttft_s.p50:7.2f} s"
        f"  {run.summary.goodput.requests_per_s:11.2f}"
    )

# %% [markdown]
# The pool was full all the time in the first three; what differs is with what. Rows of `requests`
# are requests of all runs, in pandas. Who waits longest under reservations waits less elsewhere.

# %%
waits = found.requests.pivot(index="request", columns="name", values="queue_s")
print(waits.nlargest(3, "longest reserved").round(2).to_string())

# %% [markdown]
# What the pools held over time, a panel a run: a plotly figure, which a notebook shows. Given a
# folder, each run is written there, with a page of all its charts that opens without a network.

# %%
memory = found.plot.kv()
for folder in sys.argv[1:2]:
    for name, run in found.runs.items():
        run.save(Path(folder) / name.replace(",", "").replace(" ", "-"))
    memory.write_html(Path(folder) / "memory.html")
