"""What there is to choose from, by kind."""

from __future__ import annotations

from kvsim.traces.common.part import Document, Part, key


class Choice(Part):
    """One thing to choose."""

    use: str = key("", "where the name goes")
    name: str = key()
    what: str = key("", "one line")
    verified: str = key("", "what stands behind it; may be empty")


class Choices(Document):
    """Of each kind that was asked for."""

    title = "Choices"
    schema = "kvsim.list/1"
    origin = "`kvsim list --json`"

    policies: list[Choice] | None = key(optional=True)
    presets: list[Choice] | None = key(optional=True)
    models: list[Choice] | None = key(optional=True)
    hardware: list[Choice] | None = key(optional=True)
    formats: list[Choice] | None = key(optional=True)
    schemas: list[Choice] | None = key(optional=True)
