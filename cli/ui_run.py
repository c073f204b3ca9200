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
        }
        return [f"--{name}={value}" for name, value in named.items() if value]

    def command(self, folder: Path) -> str:
        """Return the command line that does the same."""
        return shlex.join(["kvsim", "compare", self.trace, *self.options(), f"--out={folder}"])


def compare_chosen(
    choices: Choices, places: Places, folder: Path, on_progress: Callable[[int, int], None]
) -> Comparison:
    """Compare and write the folder.

    Raises
    ------
    ValueError
        On a choice that cannot be used; one sentence for the user.
    OSError
        Where the folder cannot be written.
    """
    from kvsim.cli import compare
    from kvsim.cli.simulate import check_trace_options
    from kvsim.cli.trace_options import read_with_options
    from kvsim.sim.comparison_file import write_comparison
    from kvsim.sim.own_kernels import with_own_kernels
    from kvsim.sim.report.comparison_page import comparison_page

    if len(choices.allocators) < 1:
        raise ValueError("choose at least one allocator")
    path = places.trace(choices.trace)
    commands = argparse.ArgumentParser(exit_on_error=False).add_subparsers()
    compare.add_parser(commands)
    arguments = commands.choices["compare"].parse_args([str(path), *choices.options()])
    check_trace_options(arguments)
    scenarios, note = with_own_kernels(compare.scenarios_of(arguments, None))
    trace = read_with_options(path, arguments, quiet=True)
    result = compare.compared_runs((trace,), scenarios, note, arguments, on_progress, None)
    write_comparison(result.to_json(), comparison_page(result), folder)
    return result
