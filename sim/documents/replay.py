"""A recorded run beside its replay."""

from __future__ import annotations

from kvsim.traces.common.part import Document, Part, key


class ReplayFigure(Part):
    """One statistic of both."""

    metric: str = key("", "such as `ttft`")
    statistic: str = key("", "such as `p99`")
    theirs_s: float | None = key("s", "`null` where the log does not have it")
    ours_s: float = key("s")
    error: float | None = key("1", "ours by theirs, less 1")


class ReplayDocument(Document):
    """Figures of a recorded run, theirs beside ours."""

    title = "Replay"
    schema = "kvsim.replay/1"
    origin = "`kvsim validate run MEASURED --json` (docs/validation.md)"

    run: str = key("", "name of the log")
    notes: list[str] = key("", "what was assumed")
    figures: list[ReplayFigure] = key()
    preemptions: int = key("1", "ours")
    hit_tokens: int = key("1", "ours")
    resume_hit_tokens: int = key("1", "ours")
