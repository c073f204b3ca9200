"""The summary of a run: every metric. Definitions and denominators are in ``docs/metrics.md``."""

from __future__ import annotations

from kvsim.sim.documents.kv_memory import CopyOnWrite, Host, Memory, Relocations, Retention
from kvsim.traces.common.part import Document, Part, key


class TraceName(Part):
    """The replayed trace."""

    name: str = key("", "the trace as it was replayed")
    sha256: str = key("", "hash of the file's bytes (empty if the trace is from no file)")


class ScenarioNames(Part):
    """Names of the scenario."""

    preset: str = key("", "name of the preset; empty for your own scenario")
    model: str = key("", "the model's name")
    hardware: str = key("", "the card's name")
    verified: str | None = key(
        "",
        "how the preset's rules were verified against the engine; `null` without a preset",
    )


class EngineUsed(Part):
    """The engine of the run; no result depends on it."""

    name: str = key("", "`leaper` or `stepper`; no result depends on it")
    reason: str = key("", "what the leaper relied on, or why the stepper ran")
    audited: int = key("1", "number of scheduling calls with checked invariants (`--audit`)")


class Requests(Part):
    """Requests of the trace by how they ended."""

    total: int = key("1", "requests of the trace")
    finished: int = key("1", "requests with their last token")
    refused: int = key("1", "requests that could never run")
    unfinished: int = key("1", "requests that were not finished when the run ended")
    aborted: int = key("1", "requests that their clients gave up")
    not_sent: int = key("1", "requests that follow a refused or aborted request")
    refused_ids: list[str] = key("", "the first 20 refused")
    refused_reasons: dict[str, str] = key("", "reasons of the first 20, by request")


class Window(Part):
    """The time over which rates are computed."""

    first_arrival_s: float = key("s", "since the trace's zero")
    last_arrival_s: float = key("s", "since the trace's zero")
    end_s: float = key("s", "since the trace's zero")
    seconds: float = key("s", "first arrival to end")
    peak_running: int = key("1", "largest number of requests in the engine")


class Phase(Part):
    """A part of the window."""

    seconds: float = key("s", "length of a part of the window")
    requests_finished: int = key("1", "requests with their last token in this part")
    requests_per_s: float | None = key("/s", "of those requests")
    output_tokens_per_s: float | None = key("/s", "of those requests")
    mean_running: float = key("1", "mean over time")
    mean_waiting: float = key("1", "mean over time")


class Phases(Part):
    """The window in three parts."""

    ramp_up: Phase = key()
    steady: Phase = key()
    drain: Phase = key()


class Verdict(Part):
    """Whether the numbers describe the system, or only the length of the trace."""

    kind: str = key("", "`stable`, `overloaded` or `too short`")
    text: str = key("", "the verdict as a sentence")
    binds: str | None = key(
        "", "the cause with the longest waiting time, a key of `waited_s`; `null` if none waited"
    )
    queue_slope_per_s: float | None = key(
        "/s",
        "growth of the queue while requests arrive, after the ramp-up; `null` with too few windows",
    )
    trusted_percentile: int | None = key(
        "%", "the highest of 50, 90, 99 with ten finished requests beyond it"
    )


class Statistics(Part):
    """Statistics of many numbers; without numbers, all but ``num`` are ``null``."""

    mean: float | None = key()
    p50: float | None = key()
    p90: float | None = key()
    p99: float | None = key()
    max: float | None = key()
    num: int = key("1", "samples")


class Latency(Part):
    """Latencies of requests; percentiles interpolate linearly."""

    queue_s: Statistics = key("s", "arrival to the first step that serves it, of finished requests")
    ttft_s: Statistics = key("s", "arrival to the first token, of finished requests")
    tpot_s: Statistics = key(
        "s", "time per token after the first, of finished requests with several"
    )
    itl_s: Statistics = key("s", "gap between two tokens of a request, of all gaps")
    e2e_s: Statistics = key("s", "arrival to the last token, of finished requests")
    normalised_s_per_token: Statistics = key("s", "E2E latency / output tokens")


class Throughput(Part):
    """Rates over the window."""

    requests_per_s: float | None = key("/s", "finished requests / window")
    output_tokens_per_s: float | None = key("/s", "generated tokens / window")
    total_tokens_per_s: float | None = key("/s", "including prompts of finished requests")
    sustained_requests_per_s: float | None = key(
        "/s", "rate of finishes, without the first and the last tenth"
    )
    output_tokens: int = key("1", "generated tokens")
    total_tokens: int = key("1", "including prompts of finished requests")


class Limits(Part):
    """The limits of ``[slo]`` that were given."""

    ttft_s: float | None = key("s", "limit, if given", optional=True)
    tpot_s: float | None = key("s", "limit, if given", optional=True)
    e2e_s: float | None = key("s", "limit, if given", optional=True)


class Goodput(Part):
    """Requests that meet every limit."""

    slo: Limits = key()
    requests: int = key("1", "finished requests that meet the limits")
    requests_per_s: float | None = key("/s", "of these requests, over the window")
    percent_of_finished: float | None = key("%", "of the finished requests")


class Cache(Part):
    """Prefix cache."""

    prompt_tokens: int = key("1", "tokens of admitted prompts")
    hit_tokens: int = key("1", "of these, tokens found in the cache at the first admission")
    hit_percent: float | None = key("%", "of the tokens of admitted prompts")
    evicted_blocks: int = key("1", "cached blocks that were reused for other tokens")


class ByMode(Part):
    """Preemptions by what was done with the KV."""

    recompute: int = key("1", "preemptions")
    swap: int = key("1", "preemptions")


class Judged(Part):
    """Choices of the mode ``auto``."""

    judged: int = key("1", "choices with a victim that was resumed")
    right: int = key("1", "of these, choices that were right")


class ByChoice(Part):
    """Choices of the mode ``auto``, by choice."""

    recompute: Judged = key()
    swap: Judged = key()


class Auto(Judged):
    """How often the mode ``auto`` was right."""

    percent_right: float = key("%")
    by_choice: ByChoice = key()


class Preemptions(Part):
    """Preempted requests."""

    count: int = key("1", "preemptions")
    requests: int = key("1", "requests with at least one preemption")
    by_mode: ByMode = key()
    lost_tokens: int = key("1", "computed tokens that were freed")
    resume_hit_tokens: int = key("1", "of these, tokens found in the cache at the next admission")
    recomputed_tokens: int = key("1", "of these, tokens computed again")
    auto: Auto | None = key("", '`null` unless `preemption.mode = "auto"`')


class Stalls(Part):
    """Gaps between two tokens with a preemption in between."""

    count: int = key("1", "gaps between two tokens with a preemption in between")
    seconds: float = key("s", "their sum")
    longest_s: float = key("s", "the longest")


class Queue(Part):
    """The longest wait, and overtaken requests."""

    longest_wait_s: float = key("s")
    most_overtaken: int = key(
        "1", "largest number of later arrivals that were scheduled before a request"
    )
    starved_after: int = key("1", "a request counts as starved if it was overtaken more often")
    starved: int = key("1", "starved requests")
    starved_percent: float | None = key("%", "of all requests that were queued")


class UserMeans(Part):
    """Users by their own mean TTFT."""

    median: float | None = key()
    worst: float | None = key()


class OtherUsers(Part):
    """Latencies of some users."""

    ttft_s: Statistics = key("s", "of finished requests")


class HeaviestUser(OtherUsers):
    """Latencies of the user with the most tokens."""

    user: str = key("", "name of the user with the most tokens")
    tokens_percent: float = key("%", "share of this user in all tokens")


class Users(Part):
    """Latencies of users."""

    named: int = key("1", "number of users")
    mean_ttft_s: UserMeans = key("s", "of the means of the users")
    heaviest: HeaviestUser = key()
    others: OtherUsers = key()


class Prediction(Part):
    """Quality of the predicted lengths."""

    predictor: str = key()
    num: int = key("1", "finished requests with a prediction")
    rank_correlation: float | None = key("1", "Spearman's, of predicted and true length")
    over_percent: float = key("%", "share of the predictions above the true length")
    over_mean_tokens: float | None = key("1", "mean error of these, in tokens")
    under_percent: float = key("%", "share of the predictions below the true length")
    under_mean_tokens: float | None = key("1", "mean error of these, in tokens")


class Waited(Part):
    """Request-seconds of waiting, by the cause of waiting of the queue's head."""

    step: float = key()
    max_num_seqs: float = key()
    token_budget: float = key()
    blocks: float = key()
    admission_rule: float = key(name="admission rule")


class Cost(Part):
    """The source of the step times."""

    source: str = key("", "source of the step times")
    steps: int = key("1", "steps")
    steps_outside: int = key("1", "of these, steps outside the measured range")
    percent_outside: float | None = key("%")


class Summary(Document):
    """All metrics of a run."""

    title = "Summary"
    schema = "kvsim.summary/1"
    origin = "`kvsim simulate --json`, and `summary.json` of a run folder"

    trace: TraceName = key()
    scenario: ScenarioNames = key()
    engine: EngineUsed = key()
    partial: bool = key("", "whether Ctrl-C stopped the run; the numbers are for the time before")
    notes: list[str] = key("", "effects of the inputs on the numbers, as sentences")
    requests: Requests = key()
    window: Window = key()
    phases: Phases = key()
    verdict: Verdict = key()
    latency: Latency = key()
    throughput: Throughput = key()
    goodput: Goodput | None = key("", "`null` without limits")
    memory: Memory = key()
    cache: Cache = key()
    preemptions: Preemptions = key()
    host: Host = key()
    relocations: Relocations | None = key("", "`null` unless reservations can be outgrown or slid")
    copy_on_write: CopyOnWrite = key()
    retention: Retention | None = key("", "`null` without a retention policy (docs/retention.md)")
    stalls: Stalls = key()
    queue: Queue = key()
    users: Users | None = key("", "`null` if the trace names no users")
    prediction: Prediction | None = key("", "`null` without a length predictor")
    waited_s: Waited = key(
        "s", "request-seconds of waiting, by the cause of waiting of the queue's head"
    )
    cost: Cost = key()
