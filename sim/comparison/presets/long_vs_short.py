"""Dozens of long requests against hundreds of short ones of equal tokens, on the same memory.

Each long request has 16 short ones of a sixteenth of its prompt and of its answer, which start
evenly over the time to the next long one. So both traces ask for the same prompt tokens and answer
tokens at the same pace; what differs is how many requests they come in: reservations of the
longest length waste most on short requests, and a step costs more for each request in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.comparison.scenarios import allocator_scenarios, with_equal_memory
from kvsim.traces.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.comparison.presets.base import Change, Published
    from kvsim.sim.comparison.row import Row
    from kvsim.sim.scenario.scenario import Scenario

NUM_LONG: Final = 48
PARTS: Final = 16
_PROMPT_TOKENS: Final = (256, 768)
_ANSWER_TOKENS: Final = (32, 96)
"""Of a part: uniform from, to."""
_GAP_NS: Final = 500_000_000
_SETTINGS: Final[dict[str, object]] = {"engine.max_model_len": 16_384, "engine.kv_memory": "12GiB"}


class LongVsShort:
    """Three allocators, each on the long and on the short trace."""

    name = "long-vs-short"
    summary = "48 long requests against 768 short ones of equal tokens, three allocators"
    verified = "times by the step cost"

    def traces(self, seed: int) -> tuple[Trace, ...]:
        """``long`` and ``short``; lengths of the parts are uniform, gaps exponential."""
        rng = np.random.default_rng(seed)
        prompts = rng.integers(*_PROMPT_TOKENS, size=NUM_LONG, endpoint=True)
        answers = rng.integers(*_ANSWER_TOKENS, size=NUM_LONG, endpoint=True)
        gaps_ns = np.rint(rng.exponential(_GAP_NS, NUM_LONG)).astype(np.int64)
        starts_ns = np.concatenate([[0], np.cumsum(gaps_ns)[:-1]])
        parts_ns = starts_ns[:, None] + gaps_ns[:, None] * np.arange(PARTS) // PARTS
        return (
            Trace("long", starts_ns, prompts * PARTS, answers * PARTS),
            Trace("short", parts_ns.ravel(), prompts.repeat(PARTS), answers.repeat(PARTS)),
        )

    def scenarios(self, change: Change) -> dict[str, Scenario]:
        """Max and exact reservations, and block tables."""
        named = allocator_scenarios("orca-max,orca-oracle,paged")
        return with_equal_memory(
            {name: change(one.with_values(_SETTINGS)) for name, one in named.items()}
        )

    def published(self, rows: Sequence[Row]) -> Published | None:
        """Nothing."""
        del rows
        return None
