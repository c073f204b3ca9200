"""Levers on KV memory, one after the other on one trace: each column changes one thing more.

Multi-head attention -> grouped, 16-bit KV -> fp8, a long context -> a capped one, one run of slots
a request -> blocks -> blocks with shared prefixes. All columns have the same bytes for KV.
``kvsim plan --levers`` has the same levers without a trace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.comparison.scenarios import with_equal_memory
from kvsim.sim.models import load_model
from kvsim.sim.pool.attention_levers import CAP_TOKENS, grouped_heads
from kvsim.sim.scenario.loader import load_scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.comparison.presets.base import Change, Published
    from kvsim.sim.comparison.row import Row
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.traces.trace.trace import Trace

_CONTEXT_TOKENS: Final = 4 * CAP_TOKENS
"""Context before the cap, where the model goes so far and the options say nothing."""


class Levers:
    """Six columns on the user's trace."""

    name = "levers"
    summary = "MHA, GQA, fp8 KV, a context cap, paging and prefix sharing, one after the other"
    verified = "bytes by the models' configs, times by the step cost"

    def traces(self, seed: int) -> tuple[Trace, ...]:
        """None: the user's."""
        del seed
        return ()

    def scenarios(self, change: Change) -> dict[str, Scenario]:
        """Six, each with all changes of those before."""
        contiguous, paged = change(load_scenario("orca-max")), change(load_scenario("vllm-0.32"))
        for key, is_changed in (
            ("model.num_kv_heads", paged.model.num_kv_heads is not None),
            ("engine.kv_cache_dtype", paged.engine.kv_cache_dtype != "auto"),
        ):
            if is_changed:
                raise ValueError(f"--preset levers changes {key} itself: leave it out")
        model = load_model(contiguous.model.name)
        grouped = grouped_heads(model)
        if model.num_heads <= grouped:
            raise ValueError(
                f"--preset levers groups heads by {grouped} KV heads; {model.name} has "
                f"{model.num_heads} attention heads: choose another --model"
            )
        length = contiguous.engine.max_model_len or min(_CONTEXT_TOKENS, model.max_position)
        all_heads = {"model.num_kv_heads": model.num_heads, "engine.max_model_len": length}
        heads = {**all_heads, "model.num_kv_heads": grouped}
        fp8 = {**heads, "engine.kv_cache_dtype": "fp8"}
        cap = {**fp8, "engine.max_model_len": max(length // 4, 2)}
        columns = {
            f"MHA, {model.num_heads} heads": contiguous.with_values(all_heads),
            f"GQA, {grouped} heads": contiguous.with_values(heads),
            "fp8 KV": contiguous.with_values(fp8),
            f"cap, {cap['engine.max_model_len']}": contiguous.with_values(cap),
            "paged": paged.with_values({**cap, "engine.enable_prefix_caching": False}),
            "prefix": paged.with_values({**cap, "engine.enable_prefix_caching": True}),
        }
        return with_equal_memory(columns)

    def published(self, rows: Sequence[Row]) -> Published | None:
        """Nothing."""
        del rows
        return None
