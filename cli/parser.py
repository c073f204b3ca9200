"""Command-line parser whose errors are one sentence with the value, the choices and the remedy."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kvsim.cli.options.pool_options import FLAGS_OF_KEYS
from kvsim.traces.common.names import near_names, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable

_KINDS: Final = {int: "a whole number", float: "a number"}
_OTHER_NAMES: Final = {
    "concurrency": "--users",
    "config": "--scenario",
    "dataset-path": "--format",
    "gpu": "--hardware",
    "max-concurrency": "--users",
    "num-prompts": "--limit",
    "num-requests": "--limit",
    "output": "--out",
    "qps": "--rate",
    "random-seed": "--seed",
    "replay-speed": "--rate-scale",
    "tp-size": "--tp",
    "mem-fraction-static": "--utilization",
    "quantization": "--weight-dtype",
}
"""Options of other tools, without dashes, and the option of kvsim with the same meaning."""
_REMEDIES: Final = (
    (r"the following arguments are required: (.*)", r"\1 is missing"),
    (r"argument (\S+): expected (one|at least one) argument", r"\1 needs a value"),
    (r"argument (\S+): expected (\d+) arguments", r"\1 needs \2 values"),
    (r"argument (\S+): ignored explicit argument (.*)", r"\1 takes no value, but got \2"),
    (r"argument (\S+): not allowed with argument (\S+)", r"\1 and \2 exclude each other; give one"),
    (r"one of the arguments (.*) is required", r"one of \1 is missing"),
    (r"ambiguous option: (\S+) could match (.*)", r"\1 is short for several options: \2"),
    (r"argument (\S+): (.*)", r"\1: \2"),
)
"""Sentences of argparse, and ours."""


class Parser(argparse.ArgumentParser):
    """Parser that prints no usage with an error, and suggests names for unknown ones."""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """Refuse unknown arguments here, so that the error names the command that got them."""
        known, left = super().parse_known_args(args, namespace)
        if left:
            self.error(self._about_unknown(left[0].partition("=")[0]))
        return known, left

    def error(self, message: str) -> NoReturn:
        """Print one sentence, and exit with code 2."""
        for pattern, sentence in _REMEDIES:
            if found := re.fullmatch(pattern, message, re.DOTALL):
                message = found.expand(sentence)
                break
        for action in self._actions:
            if (
                isinstance(action, argparse._SubParsersAction)
                and message == f"{action.metavar} is missing"
            ):
                message += f"; choices: {', '.join(action.choices)}"
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            self.error(unknown(_label(action), value, choices))

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        value: Any = None
        try:
            value = super()._get_value(action, arg_string)
        except argparse.ArgumentError:
            if action.type not in _KINDS:
                raise
            kind = _KINDS[action.type]
            self.error(f"{_label(action)} is {arg_string[:60]!r}; it must be {kind}")
        return value

    def _about_unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return f"{word!r} is one argument too many"
        options: Iterable[str] = self._option_string_actions
        other = _OTHER_NAMES.get(word.strip("-").lower(), "")
        near = (
            near_names(word, options, cutoff=0.85)
            or ([other] if other in options else [])
            or self._key_options(word)
            or near_names(word, options)
        )
        return f"{word} is unknown" + (f" (did you mean {' or '.join(near)}?)" if near else "")

    def _key_options(self, word: str) -> list[str]:
        """Options that set scenario keys of this name, such as ``--set table.key=VALUE``."""
        from kvsim.sim.scenario.loader import paths_named

        if "--set" not in self._option_string_actions:
            return []
        name = word.strip("-").lower().replace("-", "_").removeprefix("no_")
        return [FLAGS_OF_KEYS.get(path, f"--set {path}=VALUE") for path in paths_named(name)]


def _label(action: argparse.Action) -> str:
    """Name of an argument in a sentence: its option, or its name in small letters."""
    return "/".join(action.option_strings) or str(action.metavar or action.dest).lower()
