"""Make the figures of the README and of "Why paging won" and their numbers from new runs.

    python -m docs.figures.make

One function makes each picture from numbers. ``figures.json`` holds the numbers, so that a test can
find a picture that is out of date. The command takes about ten seconds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from docs.figures.svg import Curve, Stack, bars, curves, stacks, stacks_beside
from kvsim.sim.comparison.comparison import compare
from kvsim.sim.comparison.presets import comparison_preset
from kvsim.sim.comparison.presets.sosp23_fig2 import PAPER
from kvsim.sim.comparison.presets.sosp23_lengths import saturated
from kvsim.sim.comparison.scenarios import allocator_scenarios, compared
from kvsim.sim.models import load_model
from kvsim.sim.report.palette import BLUE, STATE_LABELS, VERMILLION
from kvsim.sim.scenario.scenario import Scenario
from kvsim.sim.scenario.setup import set_up
from kvsim.traces import bundled_path, read_trace
from kvsim.traces.reuse import measure_reuse

if TYPE_CHECKING:
    from kvsim.sim.documents.kv_memory import PaperStates, States

FOLDER: Final = Path(__file__).parent
NUMBERS: Final = FOLDER / "figures.json"
CONTEXTS: Final = (256, 512, 1024, 2048, 4096, 8192)
MODELS: Final = (
    "llama-2-7b",
    "llama-3.1-8b",
    "opt-13b",
    "gemma-3-27b",
    "llama-3.1-70b",
    "deepseek-v3",
)
SYSTEMS: Final = {
    "orca-max": "Max",
    "orca-pow2": "Pow2",
    "orca-oracle": "Oracle",
    "vllm-0.32-sync": "vLLM",
}
ALLOCATORS: Final = {
    "orca-max": "reserve max",
    "orca-oracle": "reserve true",
    "paged": "paged",
    "prefix": "paged + hash",
    "radix": "paged + radix",
}
CACHE_BLOCKS: Final = (500, 1000, 2000, 5000, 10000, 20000)


def measure() -> dict[str, Any]:
    """Return all numbers that the figures show."""
    return {
        "cache": cache(),
        "sizes": sizes(),
        "waste": waste(),
        "comparison": comparison(),
        "reuse": reuse(),
    }


def cache() -> dict[str, Any]:
    """Milliseconds to the next token, with a cached and a recomputed context (H100, 8B)."""
    cost = set_up(Scenario.load()).cost
    with_cache = [round(cost.step((), 1, context)[0] / 1e9, 3) for context in CONTEXTS]
    without = [round(cost.step([(context, 0)], 0, 0)[0] / 1e9, 3) for context in CONTEXTS]
    return {"context": CONTEXTS, "with_ms": with_cache, "without_ms": without}


def sizes() -> dict[str, float]:
    """GiB of KV for 8,192 tokens at 16 bits, by model."""
    return {name: round(load_model(name).kv_bytes(8192) / 2**30, 3) for name in MODELS}


def waste() -> dict[str, dict[str, float]]:
    """Percent of the pool while requests wait, grouped as in Figure 2 of the PagedAttention paper.

    This is one seed of ``kvsim compare --preset sosp23-fig2``; the validation page has six.
    """
    scenarios = comparison_preset("sosp23-fig2").scenarios(lambda scenario: scenario)
    rows = compare(saturated(1500, 1), scenarios, jobs=1).rows
    return {row.name: _percent(row.views.sosp23) for row in rows}


def comparison() -> dict[str, dict[str, Any]]:
    """Comparison of the README: percent of the pool while requests wait, and requests a second.

    kvsim compare traces/data/chat-2k.jsonl.gz --limit 300 --rate-scale 30 --kv-memory 4GiB
        --max-model-len 8192 --allocators orca-max,orca-oracle,paged,prefix,radix
    """
    pool = {"engine.kv_memory": "4GiB", "engine.max_model_len": 8192}
    scenarios = compared(allocator_scenarios(",".join(ALLOCATORS)), {"": pool})
    trace = read_trace(bundled_path("chat-2k"), limit=300)
    rows = compare(trace, scenarios, jobs=1, rate_scale=30).rows
    return {
        row.name: {
            "percent": _percent(row.views.six),
            "requests_per_s": round(_known(row.metrics.sustained_requests_per_s), 2),
            "ttft_p50_s": round(_known(row.metrics.ttft_s_p50), 4),
        }
        for row in rows
    }


def reuse() -> dict[str, Any]:
    """Percent of prompt tokens that an LRU prefix cache finds, by size (bundled chat trace)."""
    found = measure_reuse(read_trace(bundled_path("chat-2k")), "tree")
    served = [round(100 * found.curve.at(blocks).token_ratio, 2) for blocks in CACHE_BLOCKS]
    return {
        "blocks": CACHE_BLOCKS,
        "percent": served,
        "ceiling_percent": round(100 * found.ceiling.token_ratio, 2),
    }


def _percent(shares: States | PaperStates | None) -> dict[str, float]:
    assert shares is not None, "all of these runs have requests that wait"
    return {state: round(100 * share, 2) for state, share in shares.to_dict().items()}


def _known(value: float | None) -> float:
    assert value is not None, "all of these runs serve requests"
    return value


def draw(numbers: dict[str, Any]) -> dict[str, str]:
    """Return each picture by its file name."""
    return {
        "cache.svg": _draw_cache(numbers["cache"]),
        "sizes.svg": bars(
            "KV cache of 8,192 tokens",
            [(name, gib, f"{gib:.2f} GiB") for name, gib in numbers["sizes"].items()],
        ),
        "waste.svg": _draw_waste(numbers["waste"]),
        "comparison.svg": _draw_comparison(numbers["comparison"]),
        "reuse.svg": _draw_reuse(numbers["reuse"]),
    }


def _draw_cache(found: dict[str, Any]) -> str:
    points = {name: list(zip(found["context"], found[name], strict=True)) for name in found}
    return curves(
        "Milliseconds until the next token",
        [
            Curve("everything computed again", VERMILLION, points["without_ms"], -2),
            Curve("with a KV cache", BLUE, points["with_ms"], below=True),
        ],
        [(context, f"{context:,}") for context in CONTEXTS],
        [(1, "1"), (10, "10"), (100, "100"), (1000, "1,000")],
        "tokens of context (Llama-3.1-8B, one H100, batch 1)",
        log_y=True,
    )


def _draw_waste(found: dict[str, dict[str, float]]) -> str:
    colours = _colours("token", "reserved", "internal", "external")
    colours["external"] = ("external and other", colours["external"][1])
    rows = []
    for name, label in SYSTEMS.items():
        paper = zip(colours, (value or 0.0 for value in PAPER[name]), strict=True)
        rows.append(Stack(f"{label}, paper", {state: value / 100 for state, value in paper}))
        rows.append(Stack("kvsim", {state: found[name][state] / 100 for state in colours}))
    return stacks("Where KV memory goes while requests wait, %", rows, colours)


def _draw_comparison(found: dict[str, dict[str, Any]]) -> str:
    rows = [
        Stack(
            label,
            {state: share / 100 for state, share in found[name]["percent"].items()},
            f"{found[name]['requests_per_s']:.1f}",
        )
        for name, label in ALLOCATORS.items()
    ]
    colours = _colours("token", "reserved", "internal", "external", "cached", "free")
    titles = ("KV memory while requests wait, %", "requests/s")
    return stacks_beside(
        titles, rows, [found[name]["requests_per_s"] for name in ALLOCATORS], colours
    )


def _draw_reuse(found: dict[str, Any]) -> str:
    points = list(zip(found["blocks"], found["percent"], strict=True))
    ceiling = [(blocks, found["ceiling_percent"]) for blocks in found["blocks"]]
    return curves(
        "Prompt tokens served from the cache, %",
        [
            Curve(f"infinite cache: {found['ceiling_percent']:.1f}", VERMILLION, ceiling, 2),
            Curve("LRU", BLUE, points, 3),
        ],
        [(blocks, f"{blocks:,}") for blocks in found["blocks"]],
        [(0, "0"), (25, "25"), (50, "50"), (75, "75"), (100, "100")],
        "blocks of 16 tokens (the bundled chat trace)",
    )


def _colours(*states: str) -> dict[str, tuple[str, str]]:
    """Return word and colour of each state, as in reports, without the words in brackets."""
    return {state: (state, STATE_LABELS[state][1]) for state in states}


def main() -> None:
    """Write all pictures and their numbers."""
    numbers = json.loads(json.dumps(measure()))
    NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    for name, text in draw(numbers).items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
