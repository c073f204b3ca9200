"""``kvsim completion SHELL``: print the completion script of a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.cli.options.completion import HARDWARE, MODELS, PRESETS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable


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
    from kvsim.sim.hardware import bundled_hardware
    from kvsim.sim.models import bundled_models
    from kvsim.sim.scenario.preset import preset_names

    lists = ((PRESETS, preset_names()), (MODELS, bundled_models()), (HARDWARE, bundled_hardware()))
    functions = [_function(arguments.shell, kind[arguments.shell], names) for kind, names in lists]
    print(shtab.complete(build_parser(), arguments.shell, preamble="\n".join(functions)))
    return 0


def _function(shell: str, name: str, words: Iterable[str]) -> str:
    """Shell function that offers words and files."""
    offered = " ".join(words)
    if shell == "bash":
        return f"""{name}() {{ compgen -W "{offered}" -- "$1"; compgen -f -- "$1"; }}"""
    return f"""{name}() {{ compadd {offered}; _files; }}"""
