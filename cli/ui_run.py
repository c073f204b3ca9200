"""What was chosen on the local page, run as ``kvsim compare`` runs it."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kvsim.cli.ui_places import Places
    from kvsim.sim.comparison import Comparison
    from kvsim.sim.comparison_runs import Watch


@dataclass(frozen=True, slots=True)
class Choices:
    """The fields of the form; empty texts are left to the command's defaults."""

    trace: str
    allocators: tuple[str, ...]
    model: str
    hardware: str
    limit: int
    rate_scale: str
    kv_memory: str
    max_model_len: str
    block_map: bool = False

    def options(self) -> list[str]:
        """Options of ``kvsim compare``; each is one word, so that no text is taken for another."""
        named = {
            "allocators": ",".join(self.allocators),
            "model": self.model,
            "hardware": self.hardware,
            "limit": str(self.limit),
            "rate-scale": self.rate_scale.strip(),
            "kv-memory": self.kv_memory.strip(),
            "max-model-len": self.max_model_len.strip(),
            "record": "blocks" if self.block_map else "",
        }
        return [f"--{name}={value}" for name, value in named.items() if value]

    def command(self, trace: Path, folder: Path) -> str:
        """Return the command line that does the same; ``trace`` is where the file lies."""
        return shlex.join(["kvsim", "compare", str(trace), *self.options(), f"--out={folder}"])


def compare_chosen(
    choices: Choices,
    places: Places,
    folder: Path,
    on_progress: Callable[[int, int], None],
    watch: Watch | None = None,
) -> Comparison:
    """Compare and write the folder, with block maps where they are chosen.

    ``watch`` makes the recording of each row, which is shown live.

    Raises
    ------
    ValueError
        On a choice that cannot be used; one sentence for the user.
    OSError
        Where the folder cannot be written.
    """
    from kvsim.cli import compare
    from kvsim.cli.record_options import record_options
    from kvsim.cli.simulate import check_trace_options
    from kvsim.cli.trace_options import read_with_options
    from kvsim.sim.block_map.page import block_map_page
    from kvsim.sim.block_map.recorded import recorded_maps
    from kvsim.sim.comparison_file import write_comparison
    from kvsim.sim.own_kernels import with_own_kernels
    from kvsim.sim.report.comparison_page import comparison_page
    from kvsim.sim.report.page_file import write_page
    from kvsim.sim.run_place import BLOCK_MAP

    if not choices.allocators:
        raise ValueError("choose at least one allocator")
    path = places.trace(choices.trace)
    commands = argparse.ArgumentParser(exit_on_error=False).add_subparsers()
    compare.add_parser(commands)
    words = [str(path), *choices.options(), f"--out={folder}"]
    arguments = commands.choices["compare"].parse_args(words)
    check_trace_options(arguments)
    record = record_options(arguments)
    scenarios, note = with_own_kernels(compare.scenarios_of(arguments, None))
    trace = read_with_options(path, arguments, quiet=True)
    result = compare.compared_runs((trace,), scenarios, note, arguments, on_progress, record, watch)
    num_blocks = 0 if record is None else len(result.rows)
    write_comparison(result.to_json(), comparison_page(result), folder, num_blocks=num_blocks)
    if record is not None:
        write_page(block_map_page(recorded_maps([folder])), folder / BLOCK_MAP)
    return result
