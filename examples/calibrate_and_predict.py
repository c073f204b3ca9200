# %% [markdown]
# # Calibrate and predict
#
# Measure the cost of a step on your device, then predict the latency that users see. The model is
# tiny and the limits are small, so a CPU needs only seconds. `kvsim calibrate` does the same for a
# real model, with more repeats and a report. `python examples/calibrate_and_predict.py` runs
# everything (torch is in the extra `calibrate`). Jupyter and VS Code open the file cell by cell.

# %%
import json
import tempfile
from pathlib import Path

import torch

from kvsim.calibrate.calibration import Wish, plan_calibration
from kvsim.sim import Scenario, simulate
from kvsim.sim.cost.profile_file import dump_profile
from kvsim.traces import bundled_path, read_trace

torch.set_num_threads(1)  # other programs disturb one thread least
folder = Path(tempfile.mkdtemp())
config, saved = str(folder / "config.json"), folder / "profile.json"
shape = {"model_type": "llama", "torch_dtype": "float32", "max_position_embeddings": 4096}
shape |= {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "vocab_size": 2000}
Path(config).write_text(json.dumps(shape | {"num_attention_heads": 4, "num_key_value_heads": 2}))

# %% [markdown]
# Measure the blocks of a layer at a few sizes. The fit does not see some of these sizes. Such small
# calls last microseconds and fit badly; with a real model most blocks are within 10 %. kvsim
# usually refuses a clock that drifts by 10 %. Here any drift passes, because this is no benchmark.

# %%
limits = {"max_batch": 8, "max_context": 1024, "max_step_tokens": 256, "max_drift": 1e6}
wish = Wish(device="cpu", model=config, quick=True, **limits)
profile, _ = plan_calibration(wish).run(saved, lambda done, total: None)
saved.write_text(dump_profile(profile), "utf-8")
for block, error in profile.hold_out.items():
    print(f"{block:18} {100 * error.median:5.1f} % off on points the fit did not see (median)")

# %% [markdown]
# Simulate 100 chat requests on this device, 20 times faster than recorded, for three values of
# max_num_seqs. kvsim counts the steps outside the measured range; it does not clamp them.

# %%
trace = read_trace(bundled_path("chat-2k"), limit=100)
names = {"hardware.name": str(saved), "model.name": config}
formats = {"model.weight_dtype": "fp32", "engine.kv_cache_dtype": "fp32"}
for max_num_seqs in (16, 8, 4):
    sizes = {"engine.max_num_seqs": max_num_seqs, "engine.max_num_batched_tokens": 256}
    run = simulate(trace, Scenario.load().with_values({**names, **formats, **sizes}), rate_scale=20)
    ttft, tpot = run.summary.latency.ttft_s.p50, run.summary.latency.tpot_s.p50
    outside = run.summary.cost.percent_outside
    print(
        f"{max_num_seqs:2} at once: TTFT p50 {ttft:6.2f} s, TPOT p50 {1000 * tpot:5.1f} ms", end=""
    )
    print(f", {outside:.1f} % of steps outside the measured range")
