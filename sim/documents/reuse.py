"""How much of a trace's prompts caches of any size would serve."""

from __future__ import annotations

from kvsim.sim.documents.part import Document, Part, key
from kvsim.sim.documents.summary import TraceName


class Stretch(Part):
    """The part of the trace that counts."""

    first_request: int = key("1", "of the stretch that counts")
    end_request: int = key("1", "the one after it")
    blocks: int = key("1", "of the stretch")
    tokens: int = key("1", "of the stretch")


class CeilingFigures(Part):
    """What an infinite cache serves."""

    requests: int = key("1", "with an infinite cache")
    blocks: int = key("1", "looked up")
    prompt_tokens: int = key("1")
    unique_blocks: int = key("1")
    blocks_seen_before: int = key("1", "look-ups of blocks that an earlier request left")
    blocks_in_leading_run: int = key("1", "those of them in the leading run of such blocks")
    tokens_in_leading_run: int = key("1", "their tokens")
    requests_with_a_hit: int = key("1", "requests that hit at least a block")
    requests_fully_cached: int = key("1", "requests that hit all their prompt tokens")
    mean_request_token_ratio: float = key("1", "hits, mean over requests")
    block_ratio: float = key("1", "hits")
    token_ratio: float = key("1", "hits")


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


class SessionFigures(Part):
    """What an infinite cache serves of one session."""

    requests: int = key("1", "one session, with an infinite cache")
    prompt_tokens: int = key("1")
    hit_tokens: int = key("1")
    token_ratio: float = key("1", "hits")


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
    ceiling: CeilingFigures = key()
    needed_blocks: NeededBlocks = key("1", "smallest LRU cache that reaches so much of the ceiling")
    policy: str = key("", "of `curve`")
    curve: list[Point] = key()
    replays: dict[str, list[Point]] = key("", "by policy")
    sessions: dict[str, SessionFigures] | None = key(
        "", "with `--sessions`, by name", optional=True
    )
