"""A measured run and its replay."""

from __future__ import annotations

from kvsim.traces.common.part import Document, Part, key


class ReplayFigure(Part):
    """A statistic of the measured run (`theirs`) and of the replay (`ours`)."""

    metric: str = key("", "such as `ttft`")
    statistic: str = key("", "such as `p99`")
    theirs_s: float | None = key("s", "measured; `null` if the log does not have it")
    ours_s: float = key("s", "simulated")
    error: float | None = key("1", "simulated / measured - 1")


class ReplayDocument(Document):
    """Figures of a measured run and of its replay."""

    title = "Replay"
    schema = "kvsim.replay/1"
    origin = "`kvsim validate run MEASURED --json` (docs/validation.md)"

    run: str = key("", "name of the log")
    notes: list[str] = key("", "what was assumed")
    figures: list[ReplayFigure] = key()
    preemptions: int = key("1", "in the replay")
    hit_tokens: int = key("1", "in the replay")
    resume_hit_tokens: int = key("1", "in the replay")
