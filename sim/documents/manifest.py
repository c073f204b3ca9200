"""The manifest of a run folder: everything that is needed to repeat the run."""

from __future__ import annotations

from kvsim.sim.documents.summary import TraceName
from kvsim.traces.common.part import Document, Part, key


class TraceSource(Part):
    """How a command read the trace."""

    path: str = key("", "as on the command line")
    options: dict[str, object] = key("", "options of the command line, by name")


class ManifestTrace(TraceName):
    """The trace, and how it was read."""

    requests: int = key("1")
    source: TraceSource | None = key("", "`null` if it is from no file")


class Versions(Part):
    """Versions of the packages that influence results or files."""

    kvsim: str = key()
    numpy: str = key()
    pyarrow: str = key()
    plotly: str = key()
    simpy: str = key()


class ManifestPool(Part):
    """Sizes of the pool."""

    num_blocks: int = key("1", "blocks (or slots)")
    block_size: int = key("1", "tokens in a block")
    num_null_blocks: int = key("1", "blocks that no request gets")
    block_bytes: int = key("B")
    remainder_bytes: int = key("B", "rest of the pool that is smaller than a block")
    scores_per_token: int = key("1", "attention scores of a token")


class PoolTerm(Part):
    """A line of the calculation of the pool size."""

    name: str = key("", "name of the line")
    formula: str = key()
    num_bytes: int = key("B")
    assumed: bool = key("", "whether it is assumed")


class EngineName(Part):
    """The engine of the run."""

    name: str = key("", "as in a summary")
    reason: str = key("", "as in a summary")


class Audit(Part):
    """Whether invariants were checked."""

    asked: bool = key("", "`--audit`")
    events: int = key("1", "number of scheduling calls that were checked")


class Manifest(Document):
    """Everything that is needed to repeat a run."""

    title = "Manifest"
    schema = "kvsim.manifest/1"
    origin = "`manifest.json` of a run folder, all that makes the run again"

    scenario: dict[str, object] = key(
        "", "all keys of the scenario, as its file has them (docs/scenarios.md)"
    )
    trace: ManifestTrace = key()
    options: dict[str, object] = key("", "further options of the run (`rate_scale`, `closed`, ...)")
    seed: int = key("1")
    versions: Versions = key()
    scheduler_config: dict[str, object] = key("", "rules of the engine, after all defaults")
    pool: ManifestPool = key()
    pool_terms: list[PoolTerm] = key()
    cost_source: str = key("", "source of the step times")
    engine: EngineName = key()
    audit: Audit = key()
    partial: bool = key("", "whether Ctrl-C stopped the run")
