"""``kvsim trace fetch NAME``: fetch a public trace of the catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from kvsim.traces.fetch import Entry


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "fetch",
        help="fetch a public trace by name",
        description="Download a public trace over https. Without NAME, list the catalog. The "
        "command shows the licence of the trace, which you must observe.",
    )
    parser.add_argument("name", metavar="NAME", nargs="?", help="name in the catalog")
    parser.add_argument("--out", metavar="FILE", help="file to write (default: its own name)")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Fetch, or list."""
    from kvsim.cli.text.progress import Progress
    from kvsim.traces.fetch import fetch, find_entry, load_catalog

    catalog = load_catalog()
    if arguments.name is None:
        for entry in catalog.values():
            print("\n".join(_described(entry)))
        return 0
    entry = find_entry(arguments.name, catalog)
    path = Path(arguments.out or entry.file_name)
    with Progress("bytes") as progress:
        fetch(entry, path, on_progress=progress)
    print(f"{path}: {path.stat().st_size:,} bytes, licence {entry.licence}")
    if entry.sha256 is None:
        print("note: the catalog knows no sha256 of this file, so its content was not checked")
    return 0


def _described(entry: Entry) -> list[str]:
    from kvsim.cli.text.table import wrapped

    text = f"{entry.title}; {entry.licence}; up to {entry.max_bytes / 2**20:,.0f} MiB"
    return [*wrapped(entry.name, text, first_width=28), f"{'':28}{entry.url}"]
