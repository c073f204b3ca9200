"""A shared prefix, as in the PagedAttention paper's Figure 16 (SOSP 2023), for the record.

LLaMA-13B translates; all prompts begin with the same instruction and one example (80 tokens) or
five (341). Against Orca with exact reservations, the paper reports 1.67 and 3.58 times the
throughput. An example takes (341 - 80) / 4 = 65 tokens; that they are 27 of the source and 38 of
the answer, log-normal with sigma 0.5, is assumed here, and step times are the card's datasheet. All
requests come at once, so rates are those of full memory. Full blocks are shared: 80 and 336 tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.comparison.presets.base import Published, PublishedLine, PublishedTable
from kvsim.sim.comparison.scenarios import with_equal_memory
from kvsim.sim.scenario.loader import load_scenario
from kvsim.traces.trace.trace import PrefixIds, Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kvsim.sim.comparison.presets.base import Change
    from kvsim.sim.comparison.row import Row
    from kvsim.sim.scenario.scenario import Scenario

PREFIX_TOKENS: Final = {"one-shot": 80, "five-shot": 341}
PAPER: Final = (1.67, 3.58)
NUM_REQUESTS: Final = 3000
_SOURCE_TOKENS: Final = 27
_ANSWER_TOKENS: Final = 38
_SIGMA: Final = 0.5
_ID_TOKENS: Final = 16
_SETTINGS: Final[dict[str, object]] = {
    "model.name": "llama-2-13b",
    "hardware.name": "a100-40gb",
    "engine.kv_memory": "12GiB",
    "engine.max_model_len": 2048,
}
_SYSTEMS: Final = ("orca-oracle", "vllm-0.32-sync")


class Sosp23Prefix:
    """Orca (Oracle) and vLLM, on prompts with one example and with five."""

    name = "sosp23-prefix"
    summary = "the PagedAttention paper's Figure 16: a shared prefix of 80 and of 341 tokens"
    verified = "lengths and step times are assumed (docs/validation.md)"

    def traces(self, seed: int) -> tuple[Trace, ...]:
        """The same sentences after each prefix."""
        rng = np.random.default_rng(seed)
        sources, answers = (_lengths(mean, rng) for mean in (_SOURCE_TOKENS, _ANSWER_TOKENS))
        return tuple(
            _trace(name, tokens, sources, answers) for name, tokens in PREFIX_TOKENS.items()
        )

    def scenarios(self, change: Change) -> dict[str, Scenario]:
        """Both systems."""
        return with_equal_memory(
            {name: change(load_scenario(name).with_values(_SETTINGS)) for name in _SYSTEMS}
        )

    def published(self, rows: Sequence[Row]) -> Published | None:
        """Ratios of throughput beside the paper's."""
        if any(row.views.sosp23 is None for row in rows):  # nobody waited: other memory
            return None
        lines = (
            PublishedLine(
                "throughput", PAPER, _ratios(rows, lambda row: row.metrics.requests_per_s)
            ),
            PublishedLine(
                "batch",
                (None, None),
                _ratios(rows, lambda row: row.metrics.mean_running_while_waiting),
            ),
        )
        table = PublishedTable("vLLM, times as much as Orca (Oracle)", tuple(PREFIX_TOKENS), lines)
        basis = (
            "for the record: the prefixes are the paper's (80 and 341 tokens); the sentences (27 "
            "tokens, outputs of 38, log-normal) and the step times (datasheet) are assumed"
        )
        return Published("PagedAttention paper (SOSP 2023), Figure 16", basis, (table,))


def _ratios(rows: Sequence[Row], metric: Callable[[Row], float | None]) -> tuple[float, ...]:
    values = {row.name: value for row in rows if (value := metric(row)) is not None}
    orca, vllm = ([values[f"{one}, {name}"] for name in PREFIX_TOKENS] for one in _SYSTEMS)
    return tuple(ours / theirs for ours, theirs in zip(vllm, orca, strict=True))


def _lengths(mean: float, rng: np.random.Generator) -> NDArray[np.int64]:
    normal = rng.standard_normal(NUM_REQUESTS)
    lengths = np.rint(mean * np.exp(_SIGMA * normal - _SIGMA**2 / 2))
    return np.maximum(lengths, 1).astype(np.int64)


def _trace(name: str, prefix: int, sources: NDArray[np.int64], answers: NDArray[np.int64]) -> Trace:
    """All prompts begin with the same ``prefix`` tokens, whose full blocks have the same ids."""
    prompts = prefix + sources
    shared, blocks = prefix // _ID_TOKENS, -(-prompts // _ID_TOKENS)
    offsets = np.concatenate([[0], np.cumsum(blocks)])
    order = np.arange(offsets[-1])
    places = order - np.repeat(offsets[:-1], blocks)
    ids = np.where(places < shared, places, order + shared)
    zeros = np.zeros(len(prompts), np.int64)
    return Trace(name, zeros, prompts, answers, prefix=PrefixIds(_ID_TOKENS, offsets, ids))
