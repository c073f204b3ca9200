"""Figure 2 of the PagedAttention paper (SOSP 2023, arXiv 2309.06180): where KV memory goes.

OPT-13B with 12 GiB of KV = 15,728 slots on one A100 40 GB, three reservations and paging on the
same saturated trace, six seeds. Shares are over the time in which requests wait, in the paper's
grouping. Every step takes the same time, so batches and rates follow from lengths and memory alone.
Lengths: :mod:`kvsim.sim.comparison.presets.sosp23_lengths`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.comparison.presets.base import Published, PublishedLine, PublishedTable
from kvsim.sim.comparison.presets.sosp23_lengths import saturated
from kvsim.sim.metrics.shares import SOSP23
from kvsim.sim.scenario.loader import load_scenario

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.comparison.presets.base import Change
    from kvsim.sim.comparison.row import Row
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.traces.trace.trace import Trace

NUM_SEEDS: Final = 6
NUM_REQUESTS: Final = 1500
SETTINGS: Final[dict[str, object]] = {
    "model.name": "opt-13b",
    "hardware.name": "a100-40gb",
    "engine.kv_memory": "12GiB",
    "engine.enable_prefix_caching": False,
    "cost.source": "linear",
    "cost.base": "40ms",
}
PAGED: Final = "vllm-0.32-sync"
GROUPS: Final[dict[str, object]] = {"allocator.samples": "group"}
"""Of the paged row: the paper's engine holds sequence groups; one answer to each request here."""
PAPER: Final[dict[str, tuple[float | None, ...]]] = {
    "orca-max": (20.4, 13.3, 57.3, 8.9),
    "orca-pow2": (26.8, 17.9, 13.6, 41.6),
    "orca-oracle": (38.2, 25.2, 0.0, 36.6),
    PAGED: (96.3, None, None, None),
}
"""Percent of the pool: labels of the figure (internal waste of Oracle: "about 0")."""
BASIS: Final = (
    "fitted reconstruction: the paper's lengths are not public; those here are log-normals with "
    "its means, 161 and 338 tokens, and spreads (1.4, 0.8) fitted to this figure. Not fitted: 7 "
    "slots of 2,048 and so 8.85 % external for Max, no internal waste for Oracle, the order"
)


class Sosp23Fig2:
    """Orca (Max, Pow2, Oracle) and vLLM, six seeds each."""

    name = "sosp23-fig2"
    summary = "the PagedAttention paper's Figure 2: Orca's three reservations against paging"
    verified = "a fitted reconstruction beside the paper's numbers (docs/validation.md)"

    def traces(self, seed: int) -> tuple[Trace, ...]:
        """One a seed, from ``seed`` + 1 on."""
        return tuple(saturated(NUM_REQUESTS, seed + 1 + place) for place in range(NUM_SEEDS))

    def scenarios(self, change: Change) -> dict[str, Scenario]:
        """The four systems."""
        return {
            name: change(
                load_scenario(name).with_values(SETTINGS | (GROUPS if name == PAGED else {}))
            )
            for name in PAPER
        }

    def published(self, rows: Sequence[Row]) -> Published | None:
        """Means over the seeds beside the figure, and beside batches and rates of the text."""
        groups = {
            name: [row for row in rows if row.name == f"{name}, {row.trace}"] for name in PAPER
        }
        if any(row.views["sosp23"] is None for row in rows):  # nobody waited: other memory
            return None
        shares = [
            PublishedLine(name, PAPER[name], _mean_percent(group)) for name, group in groups.items()
        ]
        batch = {name: _mean(group, "mean_running_while_waiting") for name, group in groups.items()}
        rate = {name: _mean(group, "requests_per_s") for name, group in groups.items()}
        batches = PublishedLine("mean batch", (7.0, 9.8, 13.6, 30.4), tuple(batch.values()))
        ratios = [
            PublishedLine("batch", (2.2, 4.3), _against(batch)),
            PublishedLine("sustained rate", ((1.7, 2.7), (2.7, 8.0)), _against(rate)),
        ]
        return Published(
            "PagedAttention paper (SOSP 2023, arXiv 2309.06180), Figure 2",
            BASIS,
            (
                PublishedTable("KV memory while requests wait, %", tuple(SOSP23), tuple(shares)),
                PublishedTable(
                    "requests in a batch (paper: Figure 13, known second-hand)",
                    ("Max", "Pow2", "Oracle", "vLLM"),
                    (batches,),
                ),
                PublishedTable(
                    "vLLM, times as many as", ("orca-oracle", "orca-max"), tuple(ratios)
                ),
            ),
        )


def _mean_percent(group: Sequence[Row]) -> tuple[float, ...]:
    shares = [row.views["sosp23"] for row in group]
    known = [share for share in shares if share is not None]
    return tuple(float(100 * np.mean([share[state] for share in known])) for state in SOSP23)


def _mean(group: Sequence[Row], metric: str) -> float:
    return float(np.mean([row.metrics[metric] for row in group]))


def _against(values: dict[str, float]) -> tuple[float, ...]:
    return values[PAGED] / values["orca-oracle"], values[PAGED] / values["orca-max"]
