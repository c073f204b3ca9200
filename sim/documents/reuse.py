"""Hit ratios of a prefix cache by its size."""

from __future__ import annotations

from kvsim.sim.documents.summary import TraceName
from kvsim.traces.common.part import Document, Part, key
from kvsim.traces.reuse.ceiling import Ceiling, SessionReuse


class Stretch(Part):
    """The part of the trace that counts."""

    first_request: int = key("1", "first request that counts")
    end_request: int = key("1", "first request after the counted part")
    blocks: int = key("1", "in the counted part")
    tokens: int = key("1", "in the counted part")


class NeededBlocks(Part):
    """Smallest LRU cache that reaches a share of the largest possible hit ratio."""

    percent_50: int | None = key(name="50_percent")
    percent_90: int | None = key(name="90_percent")
    percent_99: int | None = key(name="99_percent")


class Point(Part):
    """A size of a cache, and its hits."""

    capacity_blocks: int = key("1", "size of a cache")
    capacity_tokens: int = key("1", "size of a cache")
    hit_ratio: float = key("1", "hit ratio in `unit`")
    block_hit_ratio: float = key("1", "hit ratio of blocks")
    token_hit_ratio: float = key("1", "hit ratio of tokens")
    hit_blocks: int = key("1")
    hit_tokens: int = key("1")
    capacity_bytes: int | None = key("B", "with `--kv-bytes-per-token`", optional=True)


class ReuseDocument(Document):
    """Ceiling, curve and replays."""

    title = "Reuse"
    schema = "kvsim.reuse/1"
    origin = "`kvsim trace reuse FILE --json` (docs/reuse.md)"

    trace: TraceName = key("", "as in a summary")
    definition: str = key("", "name of the definition of a hit")
    definition_text: str = key("", "definition of a hit")
    unit: str = key("", "`tokens` or `blocks`")
    block_tokens: int = key("1", "tokens in a block")
    longest_request_blocks: int = key("1")
    counted: Stretch = key()
    ceiling: Ceiling = key("", "with an infinite cache")
    needed_blocks: NeededBlocks = key("1", "smallest LRU cache that reaches a share of the ceiling")
    policy: str = key("", "policy of `curve`")
    curve: list[Point] = key()
    replays: dict[str, list[Point]] = key("", "by policy")
    sessions: dict[str, SessionReuse] | None = key(
        "", "with `--sessions`, by name, with an infinite cache", optional=True
    )
