"""Blocks that samples and beams share, as in the PagedAttention paper's Figure 15, for the record.

OPT-13B with 12 GiB of KV; each request asks for 2, 4 or 6 samples, or beams, and all come at once.
Savings are 1 - physical / logical blocks while requests wait. Those of samples follow from lengths
alone: ShareGPT's are :mod:`~kvsim.sim.comparison.presets.sosp23_lengths`, Alpaca's log-normals with
the paper's means, 19 and 58 tokens, and *assumed* spreads, 0.6 and 0.8. How beams survive is
:mod:`kvsim.sim.engine.sequence_groups`, with one turnover for each of the two data sets *fitted*
to the figure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.sim.comparison.presets.base import Published, PublishedLine, PublishedTable
from kvsim.sim.comparison.presets.sosp23_fig2 import SETTINGS
from kvsim.sim.comparison.presets.sosp23_lengths import saturated
from kvsim.sim.scenario.loader import load_scenario
from kvsim.traces.trace.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.comparison.presets.base import Change
    from kvsim.sim.comparison.row import Row
    from kvsim.sim.scenario.scenario import Scenario

WIDTHS: Final = (2, 4, 6)
TURNOVER: Final = {"ShareGPT": 0.04, "Alpaca": 0.2}
"""Fitted: share of the tokens after which beams are drawn anew."""
KINDS: Final = ("samples", "beams")
PAPER: Final[dict[tuple[str, str], tuple[float | None, ...]]] = {
    ("ShareGPT", "samples"): (16.2, None, 30.5),
    ("ShareGPT", "beams"): (44.3, None, 66.3),
    ("Alpaca", "samples"): (6.1, None, 9.8),
    ("Alpaca", "beams"): (37.6, None, 55.2),
}
"""Percent of the blocks saved: the ranges of the text, over widths 2 to 6."""
NUM_REQUESTS: Final = {"ShareGPT": 600, "Alpaca": 2400}
_ALPACA: Final = ((19.31, 0.6), (58.45, 0.8))
"""Mean and sigma of prompts and answers."""


class Sosp23Sharing:
    """VLLM's engine v0 with each turnover, on each kind of request."""

    name = "sosp23-sharing"
    summary = "the PagedAttention paper's Figure 15: blocks that samples, and beams, share"
    verified = "lengths are reconstructed, the survival of beams is fitted (docs/validation.md)"

    def traces(self, seed: int) -> tuple[Trace, ...]:
        """Each data set with samples and with beams, by width."""
        lengths = {
            "ShareGPT": saturated(NUM_REQUESTS["ShareGPT"], seed + 1),
            "Alpaca": _alpaca(NUM_REQUESTS["Alpaca"], seed + 1),
        }
        return tuple(
            _asking(trace, f"{data}, {width} {kind}", width, kind)
            for data, trace in lengths.items()
            for kind in KINDS
            for width in WIDTHS
        )

    def scenarios(self, change: Change) -> dict[str, Scenario]:
        """VLLM's engine v0 with room for all on the host, by turnover of the beams."""
        settings = SETTINGS | {"preemption.swap_space": "1TiB", "engine.max_num_seqs": 2048}
        group = load_scenario("vllm-v0").with_values(settings)
        return {
            _name(turnover): change(group.with_values({"engine.beam_turnover": turnover}))
            for turnover in TURNOVER.values()
        }

    def published(self, rows: Sequence[Row]) -> Published | None:
        """Savings beside the paper's; turnovers make no difference to samples."""
        found = ((row.name, row.metrics.sharing_savings_percent) for row in rows)
        saved = {name: percent for name, percent in found if percent is not None}
        if len(saved) < len(rows):  # nobody waited: other memory
            return None
        lines = tuple(
            PublishedLine(
                f"{data}, {kind}",
                paper,
                tuple(
                    saved[f"{_name(TURNOVER[data])}, {data}, {width} {kind}"] for width in WIDTHS
                ),
            )
            for (data, kind), paper in PAPER.items()
        )
        columns = tuple(f"width {width}" for width in WIDTHS)
        basis = (
            "lengths are reconstructed from the paper's means, with the spreads of sosp23-fig2 for "
            "ShareGPT and assumed ones for Alpaca; all samples of a request are equally long. "
            "Beams are drawn anew after 4 % of the tokens (ShareGPT) and 20 % (Alpaca): FITTED to "
            "this figure, one number each"
        )
        table = PublishedTable("blocks saved by sharing, %", columns, lines)
        return Published("PagedAttention paper (SOSP 2023), Figure 15", basis, (table,))


def _name(turnover: float) -> str:
    return f"turnover {100 * turnover:g} %"


def _asking(trace: Trace, name: str, width: int, kind: str) -> Trace:
    several = np.full(len(trace), width, np.int64)
    if kind == "beams":
        return replace(trace, name=name, beam_width=several)
    return replace(trace, name=name, num_samples=several)


def _alpaca(num_requests: int, seed: int) -> Trace:
    rng = np.random.default_rng(seed)
    prompts, outputs = (
        np.maximum(np.rint(mean * np.exp(sigma * normal - sigma**2 / 2)), 1).astype(np.int64)
        for (mean, sigma), normal in zip(
            _ALPACA, rng.standard_normal((2, num_requests)), strict=True
        )
    )
    return Trace("Alpaca", np.zeros(num_requests, np.int64), prompts, outputs)
