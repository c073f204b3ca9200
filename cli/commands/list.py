"""``kvsim list``: what there is to choose from, a line each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.cli.text.colour import as_label, joined, print_lines

if TYPE_CHECKING:
    import argparse

    from kvsim.sim.documents.choices import Choice

_KINDS: Final = ("policies", "presets", "models", "hardware", "formats", "schemas")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "list",
        help="show policies, presets, models, hardware, trace formats and JSON schemas",
        description="Show what there is to choose from: name, what it is, how it was verified. "
        "Name one kind for a short list.",
    )
    parser.add_argument("kind", nargs="?", choices=_KINDS, help="one kind only (default: all)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Print one kind, or all."""
    from kvsim.cli.text.catalogue import KINDS
    from kvsim.sim.documents.choices import Choices
    from kvsim.sim.run.folder import to_json

    kinds = _KINDS if arguments.kind is None else (arguments.kind,)
    found = {kind: KINDS[kind]() for kind in kinds}
    if arguments.json:
        print(to_json(Choices(**(dict.fromkeys(_KINDS) | found)).to_dict()), end="")
        return 0
    for place, kind in enumerate(kinds):
        if place:
            print()
        print_lines(entry_lines(kind, found[kind]))
    return 0


def entry_lines(kind: str, entries: list[Choice]) -> list[str]:
    """Entries below what takes their names."""
    from kvsim.cli.text.table import wrapped

    lines: list[str] = []
    use, width = "", max(len(entry.name) for entry in entries) + 4
    for entry in entries:
        if entry.use != use:
            use = entry.use
            lines.append(joined(as_label(kind), f": {use}"))
        text = f"{entry.what}; {entry.verified}" if entry.verified else entry.what
        lines += wrapped(f"  {entry.name}", text, first_width=width)
    return lines
