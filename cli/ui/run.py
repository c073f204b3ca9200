"""What was chosen on the local page, run as ``kvsim compare`` runs it."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kvsim.traces.common.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kvsim.cli.ui.folders import Places
    from kvsim.sim.comparison.comparison import Comparison
    from kvsim.sim.comparison.runs import Watch

_SIZE: Final = re.compile(r"(?<=\d)(?=[A-Za-z])")
"""Between the number of a size and its unit."""


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
    tp: int = 1
    block_map: bool = False

    def options(self) -> list[str]:
        """Options of ``kvsim compare``; each is one word, so that no text is taken for another."""
        named = {
            "allocators": ",".join(self.allocators),
            "model": self.model,
            "hardware": self.hardware,
            "tp": str(self.tp) if self.tp != 1 else "",
            "limit": str(self.limit),
            "rate-scale": self.rate_scale.strip(),
            "kv-memory": self.kv_memory.strip(),
            "max-model-len": self.max_model_len.strip(),
            "record": "blocks" if self.block_map else "",
        }
        return [f"--{name}={value}" for name, value in named.items() if value]

    def in_words(self) -> str:
        """Return what is compared in a line, but for the allocators."""
        memory = _SIZE.sub(" ", self.kv_memory.strip())
        tokens = self.max_model_len.strip()
        tokens = f"{int(tokens):,}" if tokens.isdecimal() else tokens
        cards = self.hardware if self.tp == 1 else f"{self.tp} x {self.hardware}"
        parts = (
            self.trace,
            f"first {counted(self.limit, 'request')}",
            f"{self.rate_scale.strip() or '1'} times as fast",
            f"{self.model} on {cards}",
            memory and f"{memory} for KV",
            tokens and f"at most {tokens} tokens",
        )
        return " · ".join(part for part in parts if part)

    def command(self, trace: Path, folder: Path) -> str:
        """Return the command line that does the same; ``trace`` is where the file lies."""
        return shlex.join(["kvsim", "compare", str(trace), *self.options(), f"--out={folder}"])


def compare_chosen(
    choices: Choices,
    places: Places,
    on_progress: Callable[[int, int], None],
    watch: Watch | None = None,
) -> tuple[Comparison, Path]:
    """Compare and write a new folder, with block maps where they are chosen; both are returned.

    All is done in this process: one that is stopped leaves nothing behind. ``watch`` as
    :func:`kvsim.sim.comparison.comparison.compare`.

    Raises
    ------
    ValueError
        On a choice that cannot be used; one sentence for the user.
    OSError
        Where the folder cannot be written.
    """
    from kvsim.cli.commands import compare
    from kvsim.cli.options.record_options import record_options
    from kvsim.cli.options.trace_options import read_with_options, run_options
    from kvsim.sim.block_map.page import block_map_page
    from kvsim.sim.block_map.recorded import recorded_maps
    from kvsim.sim.comparison.file import write_comparison
    from kvsim.sim.comparison.own_kernels import with_own_kernels
    from kvsim.sim.comparison.pages.page import comparison_page
    from kvsim.sim.folders.place import BLOCK_MAP
    from kvsim.traces.common.files import write_file

    if not choices.allocators:
        raise ValueError("choose at least one allocator")
    path = places.trace(choices.trace)
    arguments = _parsed(choices, path)
    arguments.jobs = 1
    run_options(arguments)
    record = record_options(arguments)
    scenarios, note = with_own_kernels(compare.scenarios_of(arguments, None))
    trace = read_with_options(path, arguments, quiet=True)
    with places.next_run() as folder:
        result = compare.compared_runs(
            (trace,), scenarios, note, arguments, on_progress, record, folder.draft, watch
        )
        with folder.filled() as draft:
            write_comparison(result.to_dict(), comparison_page(result), draft)
            if record is not None:
                write_file(block_map_page(recorded_maps([draft])), draft / BLOCK_MAP)
    return result, folder.path


def _parsed(choices: Choices, trace: Path) -> argparse.Namespace:
    """Read the options as ``kvsim compare`` does."""
    from kvsim.cli.commands import compare

    commands = argparse.ArgumentParser(exit_on_error=False).add_subparsers()
    compare.add_parser(commands)
    words = [str(trace), *choices.options()]
    return commands.choices["compare"].parse_args(words)


def why_too_large(choices: Choices) -> str:
    """Why the model of a comparison that was made does not fit its cards; empty where it does.

    With memory for KV that is named, nobody asked.
    """
    from pathlib import Path

    from kvsim.cli.commands import compare

    name = "prefix"
    usual = replace(choices, allocators=(name,), kv_memory="")
    try:
        compare.scenarios_of(_parsed(usual, Path()), None)
    except ValueError as error:
        return str(error).removeprefix(f"{name}: ")
    return ""
