"""A comparison: a row for each scenario."""

from __future__ import annotations

from collections.abc import Sequence

from kvsim.sim.documents.kv_memory import PaperStates, Primitives, States
from kvsim.sim.documents.summary import Cost, TraceName, Verdict
from kvsim.traces.common.part import Document, Part, key


class ComparedTrace(TraceName):
    """A compared trace."""

    requests: int = key("1")


class Shares(Part):
    """Shares of KV memory; ``None`` if no time passed."""

    all_time: Primitives | None = key(
        "1", "fractions of KV memory; sum to 1; `null` where no time passed"
    )
    while_waiting: Primitives | None = key(
        "1", "fractions of KV memory; sum to 1; `null` where no time passed"
    )


class Views(Part):
    """The shares while requests waited, in groups; ``None`` if no request waited."""

    six: States | None = key(
        "1", "fractions while requests waited; sum to 1; `null` where none did"
    )
    sosp23: PaperStates | None = key("1", "the same, in the states of the PagedAttention paper")


class KVInUse(Part):
    """A few numbers for the thumbnail of a run."""

    seconds: float = key("s", "length of the run")
    shares: list[float] = key(
        "1", "share of KV memory that running requests own, means over 40 equal stretches"
    )


class Metrics(Part):
    """Numbers of the summary that are compared; tables show those with a label."""

    pool_bytes: int = key("B")
    arrivals_per_s: float | None = key("/s", "between the first and the last arrival")
    finished: int = key("1", "requests", label="finished")
    refused: int = key("1", "requests", label="refused", better="less")
    unfinished: int = key("1", "requests")
    mean_running: float = key("1", "requests in the engine", label="mean running")
    mean_running_while_waiting: float | None = key("1", "the same while requests waited")
    peak_running: int = key("1", "maximum of requests in the engine", label="peak running")
    sustained_requests_per_s: float | None = key("/s", label="sustained req/s", better="more")
    requests_per_s: float | None = key("/s")
    output_tokens_per_s: float | None = key("/s")
    ttft_s_mean: float | None = key("s")
    ttft_s_p50: float | None = key("s", label="TTFT p50", better="less")
    ttft_s_p99: float | None = key("s", label="TTFT p99", better="less")
    tpot_s_mean: float | None = key("s")
    tpot_s_p50: float | None = key("s", label="TPOT p50", better="less")
    tpot_s_p99: float | None = key("s", label="TPOT p99", better="less")
    e2e_s_mean: float | None = key("s")
    e2e_s_p50: float | None = key("s")
    e2e_s_p99: float | None = key("s")
    longest_wait_s: float = key("s", label="longest wait", better="less")
    most_overtaken: int = key("1")
    starved: int = key("1", label="starved", better="less")
    heaviest_user_ttft_s_mean: float | None = key(
        "s", "`null` where the trace names no users", label="heaviest user's TTFT", better="less"
    )
    other_users_ttft_s_mean: float | None = key(
        "s", "`null` where the trace names no users", label="other users' TTFT", better="less"
    )
    other_users_ttft_s_p99: float | None = key(
        "s", "`null` where the trace names no users", label="other users' TTFT p99", better="less"
    )
    goodput_requests_per_s: float | None = key("/s", label="goodput requests/s", better="more")
    preemptions: int = key("1", label="preemptions", better="less")
    swaps: int = key("1")
    copying_s: float = key("s")
    hit_percent: float | None = key("%", label="hit rate, %", better="more")
    sharing_savings_percent: float | None = key("%", "while requests waited")
    retention_full_mean_bytes: float | None = key(
        "B", "as in a summary's `retention`; `null` but for chosen retention", label="all computed"
    )
    retention_shared_mean_bytes: float | None = key(
        "B", "as in a summary's `retention`; `null` but for chosen retention", label="held"
    )
    retention_per_head_mean_bytes: float | None = key(
        "B",
        "as in a summary's `retention`; `null` but for chosen retention",
        label="tables by head",
    )
    retention_holes_percent_of_held: float | None = key(
        "%", "the same", label="holes, % of held", better="less"
    )
    retention_attention_mass_kept: float | None = key(
        "1", "the same", label="attention mass", better="more"
    )


class Row(Part):
    """Result of a scenario."""

    name: str = key("", "scenario, then trace if there are several")
    trace: str = key("", "the trace's name")
    scenario: dict[str, object] = key("", "all keys of the scenario, as its file has them")
    rate_scale: str = key("", "factor of the arrival rate (a fraction such as `5/2`)")
    verified: str | None = key("", "`scenario.verified` of a summary")
    cost: Cost = key("", "as in a summary")
    notes: list[str] = key("", "as in a summary")
    kv_bytes_share: Shares = key()
    views: Views = key()
    kv_in_use: KVInUse = key()
    metrics: Metrics = key()
    verdict: Verdict = key("", "as in a summary")


class Differences(Part):
    """Metrics minus those of another row; ``None`` if one of them is undefined."""

    hit_percent: float | None = key("%", "the first minus the second")
    ttft_s_p50: float | None = key("s", "the same")
    ttft_s_p99: float | None = key("s", "the same")
    sustained_requests_per_s: float | None = key("/s", "the same")
    goodput_requests_per_s: float | None = key("/s", "the same")


class DifferenceToLRU(Part):
    """A row that reads the future, and the same scenario under LRU."""

    name: str = key("", "a row that reads the future")
    against: str = key("", "the row under `lru`")
    metrics: Differences = key()


class ComparisonDocument(Document):
    """All rows, and what is said of them together."""

    title = "Comparison"
    schema = "kvsim.comparison/1"
    origin = "`kvsim compare --json`, and `comparison.json` of its folder"

    traces: Sequence[ComparedTrace] = key()
    notes: Sequence[str] = key("", "on all rows")
    rows: Sequence[Row] = key()
    differences_to_lru: Sequence[DifferenceToLRU] = key()
    published: dict[str, object] | None = key(
        "", "with some `--preset`s: the numbers of a paper beside ours", optional=True
    )
