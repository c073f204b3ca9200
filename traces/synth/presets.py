"""Length tables fitted to public traces, in ``presets.toml``; each names its source.

``python -m kvsim.traces.synth.presets NAME FILE ...`` prints the tables of files anew.
"""

from __future__ import annotations

import math
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kvsim.traces.common.names import unknown
from kvsim.traces.read import read_trace
from kvsim.traces.synth.length_laws import QuantileTable, distance
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.traces.trace.trace import Trace

_FILE: Final = Path(__file__).parent / "presets.toml"
PROBABILITIES: Final = (
    *(0.0, 0.001, 0.005, 0.01),
    *(step / 50 for step in range(1, 50)),
    *(0.99, 0.995, 0.999, 1.0),
)
"""Where the quantiles of a table are taken."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Lengths and arrivals of a public trace.

    Attributes
    ----------
    source
        What it was fitted to, and where that is described.
    rows
        Requests that the tables stand for.
    rank_correlation
        Spearman's, of prompt and answer lengths.
    fit_prompt_ks, fit_output_ks
        Kolmogorov-Smirnov distances of the tables from the trace.
    rate_per_s, gap_cv
        Of the arrivals; None where the trace has no times.
    """

    name: str
    source: str
    rows: int
    prompt: QuantileTable
    output: QuantileTable
    rank_correlation: float
    fit_prompt_ks: float
    fit_output_ks: float
    rate_per_s: float | None = None
    gap_cv: float | None = None


def load_presets(path: Path = _FILE) -> dict[str, Preset]:
    """Read all presets, by name."""
    document = tomllib.loads(path.read_text("utf-8"))
    return {name: _preset(name, table) for name, table in document.items()}


def _preset(name: str, table: dict[str, Any]) -> Preset:
    laws = {
        which: QuantileTable(PROBABILITIES, tuple(map(float, table.pop(which))))
        for which in ("prompt", "output")
    }
    return Preset(name=name, prompt=laws["prompt"], output=laws["output"], **table)


def find_preset(name: str) -> Preset:
    """Return a preset; :class:`TraceError` names the choices."""
    presets = load_presets()
    if name not in presets:
        raise TraceError(unknown("preset", name, presets))
    return presets[name]


def fit(trace: Trace, name: str, source: str) -> Preset:
    """Fit a preset to the requests of a trace that have an answer."""
    answered = trace.output_tokens > 0
    if not answered.any():
        raise TraceError(f"trace {trace.name} has no outputs to fit lengths to")
    prompts, outputs = trace.prompt_tokens[answered], trace.output_tokens[answered]
    prompt = QuantileTable.fit(prompts, PROBABILITIES)
    output = QuantileTable.fit(outputs, PROBABILITIES)
    rate, variation = _arrivals(trace)
    return Preset(
        name=name,
        source=source,
        rows=len(prompts),
        prompt=prompt,
        output=output,
        rank_correlation=round(rank_correlation(prompts, outputs), 3),
        fit_prompt_ks=round(distance(prompts, prompt), 4),
        fit_output_ks=round(distance(outputs, output), 4),
        rate_per_s=rate,
        gap_cv=variation,
    )


def _arrivals(trace: Trace) -> tuple[float | None, float | None]:
    gaps = np.diff(np.sort(trace.arrival_ns))
    span_ns = int(gaps.sum())
    if not span_ns:
        return None, None
    rate = len(trace) / (span_ns / 1e9)
    return float(f"{rate:.4g}"), float(f"{gaps.std() / gaps.mean():.4g}")


def rank_correlation(one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """Spearman's rank correlation; equal values share their mean rank. 0 where one is constant."""
    ranks = [_ranks(one), _ranks(other)]
    if any(float(rank.std()) == 0 for rank in ranks):
        return 0.0
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: NDArray[np.int64]) -> NDArray[np.float64]:
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean_rank = last - (counts - 1) / 2
    ranks: NDArray[np.float64] = mean_rank[where.reshape(-1)]
    return ranks


def copula_correlation(rank: float) -> float:
    """Correlation of normal numbers whose rank correlation is ``rank``."""
    return 2 * math.sin(math.pi / 6 * rank)


def to_toml(preset: Preset) -> str:
    """Write a preset as a table of ``presets.toml``."""
    lines = [f"[{preset.name}]", f'source = "{preset.source}"', f"rows = {preset.rows}"]
    for key in ("rank_correlation", "fit_prompt_ks", "fit_output_ks", "rate_per_s", "gap_cv"):
        value = getattr(preset, key)
        if value is not None:
            lines.append(f"{key} = {value}")
    for key, law in (("prompt", preset.prompt), ("output", preset.output)):
        numbers = [f"{tokens:.0f}" for tokens in law.tokens]
        rows = [", ".join(numbers[at : at + 12]) for at in range(0, len(numbers), 12)]
        lines += [f"{key} = [", *(f"  {row}," for row in rows), "]"]
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    """Print the presets of files: pairs of a name and a file."""
    for name, file in zip(arguments[::2], arguments[1::2], strict=True):
        print(to_toml(fit(read_trace(file, keep_unusable=True), name, "")) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
