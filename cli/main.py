"""``kvsim``: one command line, one file a command.

A command module has ``add_parser(commands)``, which declares its options and sets ``handler`` to a
function of the parsed arguments that returns an exit code. Modules are listed in ``COMMANDS``;
they import nothing heavy until their handler runs.

Exit codes: 0 done, 1 a comparison failed, 2 the input cannot be used, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from kvsim.cli.calibrate import command as calibrate
from kvsim.cli.commands import compare, completion, explain, plan, policy, report, schema, simulate
from kvsim.cli.commands import list as list_command
from kvsim.cli.parser import Parser
from kvsim.cli.text.colour import harmless
from kvsim.cli.trace import command as trace
from kvsim.cli.ui import command as ui
from kvsim.cli.validate import command as validate

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence


COMMANDS: Final = (
    plan,
    simulate,
    compare,
    explain,
    report,
    list_command,
    schema,
    trace,
    calibrate,
    validate,
    policy,
    ui,
    completion,
)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = Parser(
        prog="kvsim",
        description="Simulate LLM serving and its KV cache: replay a request trace and show "
        "memory, throughput and latency.",
    )
    parser.add_argument("--version", action="version", version=f"kvsim {version('kvsim')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; user errors become one sentence on stderr."""
    if sys.stderr is None:  # the caller closed it: else print would write to stdout
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for good
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that its encoding lacks is no reason
        sys.stdout.reconfigure(errors="backslashreplace")  # to lose a run's table
    parser = build_parser()
    arguments = parser.parse_args(argv)
    if "handler" not in arguments:
        parser.print_help(sys.stderr)
        return 2
    handler = cast("Callable[[argparse.Namespace], int]", arguments.handler)
    try:
        code = handler(arguments)
        if sys.stdout is not None:  # None where the caller closed it
            sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return 0
    except KeyboardInterrupt:
        print("kvsim: stopped", file=sys.stderr)
        return 130
    except (MemoryError, ModuleNotFoundError, OSError, ValueError) as error:
        print(f"kvsim: {harmless(_sentence(error))}", file=sys.stderr)
        return 2
    return code


def _sentence(error: Exception) -> str:
    """What a user is told; an error that is no user's is raised again."""
    if isinstance(error, MemoryError):
        return "memory ran out: take fewer requests (--limit), or smaller numbers"
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").partition(".")[0]
        if package in ("", "kvsim"):
            raise error
        return f"this needs {package}, which is not installed here: pip install {package}"
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    return str(error)


def _forget_stdout() -> None:
    """Keep the interpreter from flushing into a pipe that nobody reads."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
