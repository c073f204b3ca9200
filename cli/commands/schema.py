"""``kvsim schema NAME``: the JSON Schema of a document that kvsim prints or writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.cli.text.colour import print_lines

if TYPE_CHECKING:
    import argparse


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "schema",
        help="print the JSON Schema of what --json prints",
        description="Print the JSON Schema (draft 2020-12) of a document that kvsim prints or "
        "writes. Without a name, list the documents. docs/json.md describes the "
        "same keys.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="such as summary or comparison")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Print one schema, or the names."""
    import json

    from kvsim.cli.commands.list import entry_lines
    from kvsim.cli.text.catalogue import schemas
    from kvsim.sim.documents import document_of
    from kvsim.sim.documents.json_schema import json_schema

    if arguments.name is None:
        print_lines(entry_lines("schemas", schemas()))
    else:
        print(json.dumps(json_schema(document_of(arguments.name)), indent=2))
    return 0
