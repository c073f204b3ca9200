"""Causes of lost hits and of time to first token."""

from __future__ import annotations

from kvsim.traces.common.part import Document, Part, key


class Hits(Part):
    """Where prefix-cache hits were lost."""

    prompt_tokens: int = key("1", "tokens of admitted prompts")
    parts: dict[str, int] = key("1", "the same tokens by hit or cause of the loss; they add up")


class MeanTtft(Part):
    """Mean time to first token of some requests, by part."""

    requests: int = key("1", "number of requests")
    mean_parts_s: dict[str, float] = key("s", "mean time to first token by part; they add up")


class Ttft(Part):
    """All requests, and the slowest."""

    all: MeanTtft = key("", "all requests with a first token")
    slowest: MeanTtft = key("", "the slowest 1 % of them, at least one")


class Explanation(Document):
    """Parts that add up to the whole."""

    title = "Explanation"
    schema = "kvsim.explain/1"
    origin = "`kvsim explain RUN --json` (docs/explain.md)"

    hits: Hits = key()
    ttft: Ttft = key()
