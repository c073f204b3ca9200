"""Read a ``config.json``; every error is one sentence, not a traceback."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from kvsim.traces.common.names import near_names

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_CONFIG_BYTES = 4 << 20
MAX_SIZE = 10**9
"""Largest value accepted for any size; a config with a larger one is not a model."""


_LONGEST_SHOWN = 60


class ConfigReader:
    """Typed access to the keys of one config; every error names file, key, value and bound."""

    def __init__(self, values: Mapping[str, object], where: str) -> None:
        self.values = values
        self.where = where

    def has(self, key: str) -> bool:
        """Whether ``key`` is there and not null."""
        return self.values.get(key) is not None

    def find(self, *keys: str) -> object | None:
        """Value of the first of ``keys`` that is there and not null."""
        return self._first(keys)[1]

    def size(self, *keys: str, default: int | None = None, minimum: int = 1) -> int:
        """Whole number under the first of ``keys`` present, at least ``minimum``."""
        key, value = self._first(keys)
        if value is None:
            if default is not None:
                return default
            raise ValueError(f"{self.where}: {key!r} is missing{self._near(key)}")
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{self.where}: {key}={_short(value)} is not a whole number")
        if not minimum <= value <= MAX_SIZE:
            raise ValueError(f"{self.where}: {key}={_short(value)} is not in {minimum}..{MAX_SIZE}")
        return value

    def optional_size(self, *keys: str, minimum: int = 1) -> int | None:
        """Like :meth:`size`, ``None`` when absent or null."""
        return self.size(*keys, minimum=minimum) if self.find(*keys) is not None else None

    def flag(self, *keys: str, default: bool = False) -> bool:
        """Boolean under the first of ``keys`` present."""
        key, value = self._first(keys)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise ValueError(f"{self.where}: {key}={_short(value)} is not true or false")
        return value

    def text(self, *keys: str, default: str = "") -> str:
        """Return the string under the first of ``keys`` present."""
        key, value = self._first(keys)
        if value is None:
            return default
        if not isinstance(value, str):
            raise ValueError(f"{self.where}: {key}={_short(value)} is not a string")
        return value

    def number(self, key: str, default: float) -> float:
        """Finite number under ``key``."""
        value = self.find(key)
        if value is None:
            return default
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
        ):
            raise ValueError(f"{self.where}: {key}={_short(value)} is not a finite number")
        return float(value)

    def items(self, key: str) -> list[object] | None:
        """List under ``key``, ``None`` when absent or null."""
        value = self.find(key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise ValueError(f"{self.where}: {key}={_short(value)} is not a list")
        return list(value)

    def section(self, key: str) -> ConfigReader | None:
        """Nested object under ``key``, ``None`` when absent or null."""
        value = self.find(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise ValueError(f"{self.where}: {key} is not an object")
        return ConfigReader(value, f"{self.where}: {key}")

    def _first(self, keys: tuple[str, ...]) -> tuple[str, object | None]:
        """First of ``keys`` that is there with its value; the first and ``None`` if none is."""
        key = next((key for key in keys if self.has(key)), keys[0])
        return key, self.values.get(key)

    def _near(self, key: str) -> str:
        near = near_names(key, map(str, self.values))
        return f" (nearest key there: {near[0]!r})" if near else ""


def _short(value: object) -> str:
    """Value as it is written, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def read_config(path: Path) -> ConfigReader:
    """Read ``config.json`` itself or the one in a folder. Raises ``ValueError`` with the reason."""
    file = path / "config.json" if path.is_dir() else path
    try:
        text = file.read_bytes()[: MAX_CONFIG_BYTES + 1]
    except OSError as error:
        raise ValueError(f"{file}: cannot be read ({error.strerror or error})") from None
    if len(text) > MAX_CONFIG_BYTES:
        raise ValueError(f"{file}: larger than {MAX_CONFIG_BYTES} bytes, not a config.json")
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file}: not a JSON file ({type(error).__name__}: {error})") from None
    if not isinstance(values, dict):
        raise ValueError(f"{file}: holds a JSON {type(values).__name__}, not an object")
    return ConfigReader(values, str(file))
