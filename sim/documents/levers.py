"""Effect of each option on KV memory."""

from __future__ import annotations

from kvsim.traces.common.part import Document, Part, key


class LeverRow(Part):
    """One setting: requests that fit by length, and one long request."""

    section: str = key("", "the option that changes")
    name: str = key("", "its value")
    bytes_per_token: int = key("B")
    requests: dict[int, int] = key("1", "number of requests of this many tokens that fit at once")
    request_bytes: int = key("B", "one request of 32,768 tokens")
    read_s: float = key("s", "time to read its KV once, by the bandwidth of the datasheet")
    factor: float = key("1", "bytes of the first row of the section / bytes of this row")


class Levers(Document):
    """All rows, sections in order."""

    title = "Levers"
    schema = "kvsim.levers/1"
    origin = (
        "`kvsim plan --levers --json`; where the weights do not fit, that of `kvsim plan` comes "
        "instead"
    )

    levers: list[LeverRow] = key()
