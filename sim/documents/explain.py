"""Why a run came out as it did: wholes and their parts."""

from __future__ import annotations

from kvsim.traces.common.part import Document, Part, key


class Hits(Part):
    """Where prefix-cache hits were lost."""

    prompt_tokens: int = key("1", "tokens of admitted prompts")
    parts: dict[str, int] = key("1", "the same by what became of them; they add up")


class MeanTtft(Part):
    """Where time to first token went, in the mean over some requests."""

    requests: int = key("1", "so many")
    mean_parts_s: dict[str, float] = key("s", "mean time to first token by part; they add up")


class Ttft(Part):
    """All requests, and the slowest."""

    all: MeanTtft = key("", "all that had a first token")
    slowest: MeanTtft = key("", "the slowest hundredth of them, at least one")


class Explanation(Document):
    """Parts of a whole, each adding up to it."""

    title = "Explanation"
    schema = "kvsim.explain/1"
    origin = "`kvsim explain RUN --json` (docs/explain.md)"

    hits: Hits = key()
    ttft: Ttft = key()
