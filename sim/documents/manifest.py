"""The manifest of a run folder: all that makes the run again, and what it stood on."""

from __future__ import annotations

from kvsim.sim.documents.summary import TraceName
from kvsim.traces.common.part import Document, Part, key


class TraceSource(Part):
    """How a command read the trace."""

    path: str = key("", "as it was given")
    options: dict[str, object] = key("", "of the command line, by name")


class ManifestTrace(TraceName):
    """The trace, and how it was read."""

    requests: int = key("1")
    source: TraceSource | None = key("", "`null` where it came from no file")


class Versions(Part):
    """Of the packages that shape results or files."""

    kvsim: str = key()
    numpy: str = key()
    pyarrow: str = key()
    plotly: str = key()
    simpy: str = key()


class ManifestPool(Part):
    """Sizes of the pool."""

    num_blocks: int = key("1", "blocks (or slots)")
    block_size: int = key("1", "tokens a block")
    num_null_blocks: int = key("1", "blocks that no request gets")
    block_bytes: int = key("B")
    remainder_bytes: int = key("B", "that fit no block")
    scores_per_token: int = key("1", "attention scores")


class PoolTerm(Part):
    """A line of where the pool's memory comes from."""

    name: str = key("", "where the pool's memory comes from")
    formula: str = key()
    num_bytes: int = key("B")
    assumed: bool = key("", "whether it stands on an assumption")


class EngineName(Part):
    """Which engine walked through the steps."""

    name: str = key("", "as in a summary")
    reason: str = key("", "as in a summary")


class Audit(Part):
    """Whether invariants were checked."""

    asked: bool = key("", "`--audit`")
    events: int = key("1", "scheduling calls that were checked")


class Manifest(Document):
    """Everything needed to make a run again."""

    title = "Manifest"
    schema = "kvsim.manifest/1"
    origin = "`manifest.json` of a run folder, all that makes the run again"

    scenario: dict[str, object] = key(
        "", "all keys of the scenario, as its file has them (docs/scenarios.md)"
    )
    trace: ManifestTrace = key()
    options: dict[str, object] = key("", "what else shaped the run (`rate_scale`, `closed`, ...)")
    seed: int = key("1")
    versions: Versions = key()
    scheduler_config: dict[str, object] = key("", "the engine's rules as they were settled")
    pool: ManifestPool = key()
    pool_terms: list[PoolTerm] = key()
    cost_source: str = key("", "where step times come from")
    engine: EngineName = key()
    audit: Audit = key()
    partial: bool = key("", "stopped by Ctrl-C")
