"""Choices of `kvsim list`, by kind."""

from __future__ import annotations

from kvsim.traces.common.part import Document, Part, key


class Choice(Part):
    """A choice."""

    use: str = key("", "option or key that takes the name")
    name: str = key()
    what: str = key("", "description in one line")
    verified: str = key("", "how it was verified; can be empty")


class Choices(Document):
    """Choices of each requested kind."""

    title = "Choices"
    schema = "kvsim.list/1"
    origin = "`kvsim list --json`"

    policies: list[Choice] | None = key(optional=True)
    presets: list[Choice] | None = key(optional=True)
    models: list[Choice] | None = key(optional=True)
    hardware: list[Choice] | None = key(optional=True)
    formats: list[Choice] | None = key(optional=True)
    schemas: list[Choice] | None = key(optional=True)
