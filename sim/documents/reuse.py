"""How much of a trace's prompts caches of any size would serve."""

from __future__ import annotations

from kvsim.sim.documents.summary import TraceName
from kvsim.traces.common.part import Document, Part, key
from kvsim.traces.reuse.ceiling import Ceiling, SessionReuse


class Stretch(Part):
    """The part of the trace that counts."""

    first_request: int = key("1", "of the stretch that counts")
    end_request: int = key("1", "the one after it")
    blocks: int = key("1", "of the stretch")
    tokens: int = key("1", "of the stretch")


class NeededBlocks(Part):
    """Smallest LRU cache that reaches so much of the ceiling."""

    percent_50: int | None = key(name="50_percent")
    percent_90: int | None = key(name="90_percent")
    percent_99: int | None = key(name="99_percent")


class Point(Part):
    """One size of a cache, and what it serves."""

    capacity_blocks: int = key("1", "size of a cache")
    capacity_tokens: int = key("1", "size of a cache")
    hit_ratio: float = key("1", "hits in `unit`")
    block_hit_ratio: float = key("1", "hits of blocks")
    token_hit_ratio: float = key("1", "hits of tokens")
    hit_blocks: int = key("1")
    hit_tokens: int = key("1")
    capacity_bytes: int | None = key("B", "with `--kv-bytes-per-token`", optional=True)


class ReuseDocument(Document):
    """Ceiling, curve and replays."""

    title = "Reuse"
    schema = "kvsim.reuse/1"
    origin = "`kvsim trace reuse FILE --json` (docs/reuse.md)"

    trace: TraceName = key("", "as in a summary")
    definition: str = key("", "what a hit is: its name")
    definition_text: str = key("", "what a hit is, in words")
    unit: str = key("", "`tokens` or `blocks`")
    block_tokens: int = key("1", "tokens a block")
    longest_request_blocks: int = key("1")
    counted: Stretch = key()
    ceiling: Ceiling = key("", "with an infinite cache")
    needed_blocks: NeededBlocks = key("1", "smallest LRU cache that reaches so much of the ceiling")
    policy: str = key("", "of `curve`")
    curve: list[Point] = key()
    replays: dict[str, list[Point]] = key("", "by policy")
    sessions: dict[str, SessionReuse] | None = key(
        "", "with `--sessions`, by name, with an infinite cache", optional=True
    )
