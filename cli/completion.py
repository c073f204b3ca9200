"""``kvsim completion SHELL``: print the completion script of a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import argparse

FILES: Final = {"bash": "_shtab_compgen_files", "zsh": "_files"}
"""What shtab completes an argument with that is a file; set as its ``complete``."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "completion",
        help="print a shell completion script",
        description="Print the completion script of a shell, for example: "
        "kvsim completion bash > ~/.local/share/bash-completion/completions/kvsim",
    )
    parser.add_argument("shell", choices=("bash", "zsh"))
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from kvsim.cli.main import build_parser

    print(shtab.complete(build_parser(), shell=arguments.shell))
    return 0
