"""What each lever on KV memory buys."""

from __future__ import annotations

from kvsim.traces.common.part import Document, Part, key


class LeverRow(Part):
    """One setting: requests that fit by length, and one long request."""

    section: str = key("", "what is changed")
    name: str = key("", "to what")
    bytes_per_token: int = key("B")
    requests: dict[int, int] = key("1", "so many requests of that many tokens fit at once")
    request_bytes: int = key("B", "one request of 32,768 tokens")
    read_s: float = key("s", "reading its KV once, by the datasheet's bandwidth")
    factor: float = key("1", "times fewer bytes than the section's first")


class Levers(Document):
    """All rows, sections in order."""

    title = "Levers"
    schema = "kvsim.levers/1"
    origin = (
        "`kvsim plan --levers --json`; where the weights do not fit, that of `kvsim plan` comes "
        "instead"
    )

    levers: list[LeverRow] = key()
