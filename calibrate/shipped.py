"""The profiles that kvsim ships, and the tables each is fitted to.

``python -m kvsim.calibrate.shipped TABLES sim/cost/profiles`` writes them again, TABLES being a
folder with the tables of aiconfigurator, vidur and llmservingsim, and prints their errors as a
table.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.calibrate.fit.fit import fit_profile
from kvsim.calibrate.fit.gates import gate_of
from kvsim.calibrate.sources import read_measurements
from kvsim.calibrate.sources.measurements import filled_from
from kvsim.calibrate.sources.request import ReadRequest
from kvsim.sim.cost.profile_file import dump_profile
from kvsim.sim.models import load_model
from kvsim.traces.common.files import write_file
from kvsim.traces.common.text import percent

if TYPE_CHECKING:
    from kvsim.calibrate.sources.measurements import Measurements
    from kvsim.sim.cost.profile import Profile


class Part(NamedTuple):
    """Tables of one source: the format, and files or folders below the folder of tables."""

    source: str
    paths: tuple[str, ...]


class Recipe(NamedTuple):
    """One shipped profile; a later part fills in what the earlier ones lack."""

    name: str
    hardware: str
    model: str
    parts: tuple[Part, ...]


_RTX_TABLES: Final = Part("llmservingsim", ("llmservingsim",))
RECIPES: Final = (
    Recipe("a100-sxm", "a100-sxm", "llama-3.1-8b",
           (Part("aiconfigurator", ("aiconfigurator/a100_sxm",)),)),
    Recipe("a100-sxm-llama-3-70b", "a100-sxm", "llama-3-70b",
           (Part("vidur", ("vidur/compute__a100__meta-llama__Meta-Llama-3-70B__mlp.csv.gz",)),
            Part("aiconfigurator", ("aiconfigurator/a100_sxm",)))),
    Recipe("h100-sxm", "h100-sxm", "llama-3.1-8b",
           (Part("aiconfigurator", ("aiconfigurator/h100_sxm",)),)),
    Recipe("h100-sxm-llama-2-70b", "h100-sxm", "llama-2-70b",
           (Part("vidur", ("vidur/compute__h100__meta-llama__Llama-2-70b-hf__mlp.csv.gz",)),
            Part("aiconfigurator", ("aiconfigurator/h100_sxm",)))),
    Recipe("l40s", "l40s", "llama-3.1-8b", (Part("aiconfigurator", ("aiconfigurator/l40s",)),)),
    Recipe("rtx-4090", "rtx-4090", "llama-3.1-8b", (_RTX_TABLES,)),
    Recipe("rtx-pro-6000", "rtx-pro-6000", "llama-3.1-8b", (_RTX_TABLES,)),
    Recipe("rtx-pro-6000-qwen3-30b-a3b", "rtx-pro-6000", "qwen3-30b-a3b", (_RTX_TABLES,)),
)  # fmt: skip


def measurements_of(recipe: Recipe, tables: Path) -> Measurements:
    """All parts of a recipe, read."""
    found: Measurements | None = None
    for part in recipe.parts:
        request = ReadRequest(
            tuple(tables / path for path in part.paths),
            load_model(recipe.model),
            hardware=recipe.hardware,
        )
        measured = read_measurements(part.source, request)
        found = measured if found is None else filled_from(found, measured)
    assert found is not None, "a recipe has at least one part"
    return found


def fit_recipe(recipe: Recipe, tables: Path) -> Profile:
    """Profile of a recipe."""
    return fit_profile(measurements_of(recipe, tables), recipe.name).profile


def error_rows(profiles: list[Profile]) -> list[str]:
    """Markdown table of the errors on unseen points, median/p90 in percent; ``!`` = gate missed."""
    blocks = ("decode_step", "decode_attention", "layer", "prefill_attention", "mixed_attention",
              "experts", "head", "weight_shapes")  # fmt: skip
    lines = ["| profile | " + " | ".join(blocks) + " |", "| --- |" + " --- |" * len(blocks)]
    for profile in profiles:
        cells = []
        for block in blocks:
            found, gate = profile.hold_out.get(block), gate_of(block, profile.hardware)
            if found is None:
                cells.append("-")
                continue
            if gate is None:
                cells.append(f"{100 * found.median:.1f}/{100 * found.p90:.1f}")
                continue
            median, p90 = percent(found.median, gate.median), percent(found.p90, gate.p90)
            missed = "" if gate.passed(found) else " !"
            cells.append(f"{median}/{p90}{missed}".replace(" %", ""))
        lines.append(f"| `{profile.name}` | " + " | ".join(cells) + " |")
    return lines


def main(tables: Path, folder: Path) -> None:
    """Fit, write and print all."""
    profiles = []
    for recipe in RECIPES:
        profile = fit_recipe(recipe, tables)
        write_file([dump_profile(profile)], folder / f"{profile.name}.json")
        profiles.append(profile)
    print("\n".join(error_rows(profiles)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
