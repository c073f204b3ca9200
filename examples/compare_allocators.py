# %% [markdown]
# # Compare allocators on one trace
#
# What does a reservation of the model length cost, and what do block tables and shared prefixes
# gain? All runs have the same 300 chat requests, 30 times faster than recorded, and 4 GiB for KV.
# Only the allocator changes. `python examples/compare_allocators.py [FOLDER]` runs everything.
# Jupyter and VS Code open the file cell by cell.

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
# Simulate each scenario once, all in this process. `simulate` returns the same `Run` objects. The
# page on metrics defines the numbers of a `summary`.

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
# In the first three runs the pool was always full; they differ in its contents. `requests` is a
# pandas table with one row for each request of each run. The requests that wait
# longest with reservations wait less with the other allocators.

# %%
waits = found.requests.pivot(index="request", columns="name", values="queue_s")
print(waits.nlargest(3, "longest reserved").round(2).to_string())

# %% [markdown]
# A plotly figure shows the contents of each pool over time, one panel for each run. A notebook
# displays it. With a folder as argument, the script writes each run to the folder, with a page of
# all its charts. The page opens without a network.

# %%
memory = found.plot.kv()
for folder in sys.argv[1:2]:
    for name, run in found.runs.items():
        run.save(Path(folder) / name.replace(",", "").replace(" ", "-"))
    memory.write_html(Path(folder) / "memory.html")
