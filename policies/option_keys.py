"""How a scenario key is declared: default, rule, unit and meaning, in one place.

A declaration is a field of the dataclass of its table. A rule converts a TOML value into a Python
value, or raises ``ValueError`` with the accepted values. The loader adds the place of the key.
"""

from __future__ import annotations

import math
from dataclasses import Field, dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar, cast

from kvsim.policies.registry import MODULE_NAME
from kvsim.traces.common.quantities import (
    LARGEST,
    format_duration,
    format_size,
    parse_duration_ps,
    parse_size_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kvsim.policies.registry import Registry


T = TypeVar("T")
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Rule:
    """How a key is read (``parse``) and written (``show``); ``allowed`` says what it accepts.

    ``optional`` keys also accept the text ``none``; the value is then ``None``. ``registry`` is the
    registry of the policy names. ``words`` are the accepted words, and ``named`` gives the meaning
    of each. ``unit`` is the unit of all values of the rule.
    """

    parse: Callable[[object], object]
    allowed: str
    show: Callable[[object], object] = lambda value: value
    optional: bool = False
    registry: Registry[object] | None = None
    words: tuple[str, ...] = ()
    named: Mapping[str, object] | None = None
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Key:
    """What a declaration says about a key besides its default: the arguments of :func:`key`."""

    rule: Rule
    meaning: str
    name: str
    unit: str
    engine: str
    of: tuple[str, ...]


def key(
    default: T,
    rule: Rule,
    meaning: str,
    *,
    name: str = "",
    unit: str = "",
    engine: str = "",
    of: tuple[str, ...] = (),
) -> T:
    """Declare a scenario key.

    ``meaning`` is one line for the page on scenarios. ``name`` is the TOML name, where the
    attribute carries a unit. ``unit`` is the unit of the value, where the rule does not give one.
    ``engine`` is the name of the option in a real engine. ``of`` lists the policies that read the
    key, where not all policies of its table do.
    """
    declared = Key(rule, meaning, name, unit or rule.unit, engine, of)
    return field(default=default, metadata={"key": declared})


def key_of(item: Field[object]) -> Key:
    """Return what the declaration with :func:`key` says about a dataclass field."""
    return cast("Key", item.metadata["key"])


def rule_of(item: Field[object]) -> Rule:
    """Return the rule of a dataclass field made by :func:`key`."""
    return key_of(item).rule


def name_of(item: Field[object]) -> str:
    """Return the TOML name of a dataclass field made by :func:`key`."""
    return key_of(item).name or item.name


def shown(value: object) -> str:
    """Return a value as messages print it; long values are cut."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no integers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def choice(*values: str, later: str = "") -> Rule:
    """Accept one of a few words; ``later`` names words that are planned but not available yet."""
    allowed = " or ".join(repr(value) for value in values)

    def parse(value: object) -> object:
        if value not in values:
            planned = f" ({later} come later)" if later else ""
            raise ValueError(f"expected {allowed}{planned}")
        return value

    return Rule(parse, allowed, words=values)


def named(choices: Mapping[str, object]) -> Rule:
    """Accept one of a few words; ``choices`` maps each to a sentence, or an object with one."""
    return replace(choice(*choices), named=choices)


def policy(registry: Registry[object]) -> Rule:
    """Accept a policy by name: a built-in one, a plug-in's, or ``module:name``."""

    def parse(value: object) -> object:
        if not isinstance(value, str) or value not in registry.builtins:
            names = registry.names()
            if not isinstance(value, str) or (value not in names and ":" not in value):
                raise ValueError(f"expected one of {', '.join(names)}, {MODULE_NAME}")
            registry.find(value)
        return value

    allowed = f"{' or '.join(map(repr, registry.builtins))}, {MODULE_NAME}"
    return Rule(parse, allowed, registry=registry, words=tuple(registry.builtins))


def builtin(registry: Registry[object]) -> Rule:
    """Accept one of the bundled policies by name."""
    return replace(choice(*registry.builtins), registry=registry)


def whole(minimum: int, maximum: int | None = None, *, optional: bool = False) -> Rule:
    """Accept an integer of at least ``minimum``, and at most ``maximum``."""
    if maximum is None:
        return _number(int, f"a whole number >= {minimum}", lambda x: x >= minimum, optional)
    allowed = range(minimum, maximum + 1)
    return _number(
        int, f"a whole number from {minimum} to {maximum:,}", lambda x: x in allowed, optional
    )


def count_or_inf() -> Rule:
    """Accept an optional whole number from 0 on, or ``inf``."""
    number = whole(0)

    def parse(value: object) -> object:
        if value in ("inf", math.inf):
            return math.inf
        try:
            return number.parse(value)
        except ValueError:
            raise ValueError("expected a whole number >= 0, or inf") from None

    def show(value: object) -> object:
        return "inf" if value == math.inf else value

    return Rule(parse, "a whole number >= 0, or inf", show, optional=True)


def fraction(*, above_zero: bool = False) -> Rule:
    """Accept a number from 0 up to 1: without 1, or without 0 where ``above_zero``."""
    if above_zero:
        rule = _number(float, "a fraction above 0, at most 1", lambda x: 0 < x <= 1, False)
    else:
        rule = _number(float, "a fraction from 0 up to, but not, 1", lambda x: 0 <= x < 1, False)
    return replace(rule, unit="share")


def above_zero() -> Rule:
    """Accept a number above 0."""
    return _number(float, "a number above 0", lambda x: x > 0, False)


def number(minimum: float) -> Rule:
    """Accept a number of at least ``minimum``."""
    return _number(float, f"a number >= {minimum:g}", lambda x: x >= minimum, False)


def increasing() -> Rule:
    """Accept a list of whole numbers above 0, each larger than the one before."""
    allowed = "a list of increasing whole numbers above 0, such as [128, 512, 2048]"

    def parse(value: object) -> object:
        if not isinstance(value, list) or not value:
            raise ValueError(f"expected {allowed}")
        before = 0
        for item in value:
            if isinstance(item, bool) or not isinstance(item, int) or not before < item <= LARGEST:
                raise ValueError(f"expected {allowed}")
            before = item
        return tuple(value)

    return Rule(parse, allowed, lambda value: list(cast("tuple[int, ...]", value)))


def flag(*, optional: bool = False) -> Rule:
    """Accept ``true`` or ``false``."""

    def parse(value: object) -> object:
        if not isinstance(value, bool):
            raise ValueError("expected true or false")
        return value

    return Rule(parse, "true or false", optional=optional)


def text(what: str, *, optional: bool = False) -> Rule:
    """Accept non-empty text; ``what`` names it in the message."""

    def parse(value: object) -> object:
        if not isinstance(value, str) or not value:
            raise ValueError(f"expected {what}")
        return value

    return Rule(parse, what, optional=optional)


def size(*, or_zero: bool = False, optional: bool = True) -> Rule:
    """Accept a size in bytes, 0 only where ``or_zero``."""

    def parse(value: object) -> object:
        size_bytes = parse_size_bytes(value)
        if size_bytes == 0 and not or_zero:
            raise ValueError("expected a size above 0")
        return size_bytes

    return Rule(
        parse,
        f"a size such as 4GiB{', or 0' if or_zero else ''}",
        lambda value: format_size(cast("int", value)),
        optional=optional,
        unit="bytes",
    )


def duration(*, optional: bool = True) -> Rule:
    """Accept a duration in picoseconds."""
    return Rule(
        parse_duration_ps,
        "a time such as 50ms",
        lambda value: format_duration(cast("int", value)),
        optional=optional,
        unit="ps",
    )


def _number(kind: type, allowed: str, test: Callable[[float], bool], optional: bool) -> Rule:
    def parse(value: object) -> object:
        accepted = (int, float) if kind is float else (int,)
        if isinstance(value, bool) or not isinstance(value, accepted) or not test(value):
            raise ValueError(f"expected {allowed}")
        if value > LARGEST:
            raise ValueError(f"expected {allowed}, at most 2^63 - 1")
        return kind(value)

    return Rule(parse, allowed, optional=optional)
