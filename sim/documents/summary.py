"""The summary of a run: every metric. Definitions and denominators are in ``docs/metrics.md``."""

from __future__ import annotations

from kvsim.sim.documents.kv_memory import CopyOnWrite, Host, Memory, Relocations, Retention
from kvsim.traces.common.part import Document, Part, key


class TraceName(Part):
    """Which trace was replayed."""

    name: str = key("", "the trace as it was replayed")
    sha256: str = key("", "hash of the file's bytes (empty where it came from no file)")


class ScenarioNames(Part):
    """What was simulated, by name."""

    preset: str = key("", "what was simulated; empty for a scenario of your own")
    model: str = key("", "the model's name")
    hardware: str = key("", "the card's name")
    verified: str | None = key(
        "",
        "how the preset's rules were verified against the engine; `null` without a preset",
    )


class EngineUsed(Part):
    """Which engine walked through the steps; no result depends on it."""

    name: str = key("", "`leaper` or `stepper`; no result depends on it")
    reason: str = key("", "what it relied on, or why steps were walked one by one")
    audited: int = key("1", "scheduling calls whose invariants were checked (`--audit`)")


class Requests(Part):
    """Requests of the trace by how they ended."""

    total: int = key("1", "requests of the trace")
    finished: int = key("1", "requests whose last token is there")
    refused: int = key("1", "requests that could never run")
    unfinished: int = key("1", "requests that the end of the run cut short")
    aborted: int = key("1", "requests that their clients gave up")
    not_sent: int = key("1", "requests that follow one that was refused or aborted")
    refused_ids: list[str] = key("", "the first 20 refused")
    refused_reasons: dict[str, str] = key("", "why, by request, of the first 20")


class Window(Part):
    """The stretch of time that rates are over."""

    first_arrival_s: float = key("s", "since the trace's zero")
    last_arrival_s: float = key("s", "since the trace's zero")
    end_s: float = key("s", "since the trace's zero")
    seconds: float = key("s", "first arrival to end")
    peak_running: int = key("1", "most requests in the engine at a time")


class Phase(Part):
    """A part of the window."""

    seconds: float = key("s", "length of a part of the window")
    requests_finished: int = key("1", "requests whose last token came in it")
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
    """Whether the numbers tell of the system, or of the length of the trace."""

    kind: str = key("", "`stable`, `overloaded` or `too short`")
    text: str = key("", "the sentence shown")
    binds: str | None = key(
        "", "what most requests waited for, a key of `waited_s`; `null` where none did"
    )
    queue_slope_per_s: float | None = key(
        "/s",
        "growth of the queue while requests arrive, after the ramp-up; `null` where too few "
        "windows tell",
    )
    trusted_percentile: int | None = key(
        "%", "the highest of 50, 90, 99 with ten finished requests beyond it"
    )


class Statistics(Part):
    """What is told of many numbers; ``null`` but for their number where there are none."""

    mean: float | None = key()
    p50: float | None = key()
    p90: float | None = key()
    p99: float | None = key()
    max: float | None = key()
    num: int = key("1", "samples")


class Latency(Part):
    """How long requests took; percentiles interpolate linearly."""

    queue_s: Statistics = key("s", "arrival to the first step that serves it, of finished requests")
    ttft_s: Statistics = key("s", "arrival to the first token, of finished requests")
    tpot_s: Statistics = key("s", "time a token after the first, of finished requests of several")
    itl_s: Statistics = key("s", "gap between two tokens of a request, of all gaps")
    e2e_s: Statistics = key("s", "arrival to the last token, of finished requests")
    normalised_s_per_token: Statistics = key("s", "E2E latency by output tokens")


class Throughput(Part):
    """Rates over the window."""

    requests_per_s: float | None = key("/s", "finished requests, over the window")
    output_tokens_per_s: float | None = key("/s", "generated tokens, over the window")
    total_tokens_per_s: float | None = key("/s", "with prompts of finished requests")
    sustained_requests_per_s: float | None = key(
        "/s", "finishes without the first and the last tenth"
    )
    output_tokens: int = key("1", "generated")
    total_tokens: int = key("1", "with prompts of finished requests")


class Limits(Part):
    """The limits of ``[slo]`` that were given."""

    ttft_s: float | None = key("s", "limit, where it is given", optional=True)
    tpot_s: float | None = key("s", "limit, where it is given", optional=True)
    e2e_s: float | None = key("s", "limit, where it is given", optional=True)


class Goodput(Part):
    """Requests that keep every limit."""

    slo: Limits = key()
    requests: int = key("1", "finished requests that keep the limits")
    requests_per_s: float | None = key("/s", "over the window")
    percent_of_finished: float | None = key("%", "of the finished requests")


class Cache(Part):
    """Prefix cache."""

    prompt_tokens: int = key("1", "tokens of admitted prompts")
    hit_tokens: int = key("1", "of them found in the cache at first admission")
    hit_percent: float | None = key("%", "of the tokens of admitted prompts")
    evicted_blocks: int = key("1", "blocks that lost their key to a new owner")


class ByMode(Part):
    """Preemptions by what became of the KV."""

    recompute: int = key("1", "preemptions")
    swap: int = key("1", "preemptions")


class Judged(Part):
    """Choices of the mode ``auto``."""

    judged: int = key("1", "choices whose victim came back")
    right: int = key("1", "of them those that were right")


class ByChoice(Part):
    """Choices of the mode ``auto``, by what was chosen."""

    recompute: Judged = key()
    swap: Judged = key()


class Auto(Judged):
    """How often the mode ``auto`` was right."""

    percent_right: float = key("%")
    by_choice: ByChoice = key()


class Preemptions(Part):
    """Requests that gave their memory up while they ran."""

    count: int = key("1", "preemptions")
    requests: int = key("1", "requests that had any")
    by_mode: ByMode = key()
    lost_tokens: int = key("1", "computed tokens thrown away")
    resume_hit_tokens: int = key("1", "of them found again in the cache")
    recomputed_tokens: int = key("1", "of them computed again")
    auto: Auto | None = key("", '`null` but for `preemption.mode = "auto"`')


class Stalls(Part):
    """Gaps between two tokens that held a preemption."""

    count: int = key("1", "gaps between two tokens that held a preemption")
    seconds: float = key("s", "their sum")
    longest_s: float = key("s", "the longest")


class Queue(Part):
    """The longest wait, and who was passed by others."""

    longest_wait_s: float = key("s")
    most_overtaken: int = key("1", "later arrivals that entered before one request")
    starved_after: int = key("1", "overtaken by more than so many: starved")
    starved: int = key("1", "requests")
    starved_percent: float | None = key("%", "of all that entered the queue")


class UserMeans(Part):
    """Users by their own mean TTFT."""

    median: float | None = key()
    worst: float | None = key()


class OtherUsers(Part):
    """What some users met."""

    ttft_s: Statistics = key("s", "of finished requests")


class HeaviestUser(OtherUsers):
    """What the user met who asks for most tokens."""

    user: str = key("", "who asks for most tokens")
    tokens_percent: float = key("%", "its part of all tokens")


class Users(Part):
    """What users met."""

    named: int = key("1", "names")
    mean_ttft_s: UserMeans = key("s", "of the users' own means")
    heaviest: HeaviestUser = key()
    others: OtherUsers = key()


class Prediction(Part):
    """How good predicted lengths were."""

    predictor: str = key()
    num: int = key("1", "finished requests with a prediction")
    rank_correlation: float | None = key("1", "Spearman's, of predicted and true length")
    over_percent: float = key("%", "of the predictions, those above the answer")
    over_mean_tokens: float | None = key("1", "by so many tokens in the mean")
    under_percent: float = key("%", "of the predictions, those below the answer")
    under_mean_tokens: float | None = key("1", "by so many tokens in the mean")


class Waited(Part):
    """Request-seconds of waiting, by what the queue's head waited for."""

    step: float = key()
    max_num_seqs: float = key()
    token_budget: float = key()
    blocks: float = key()
    admission_rule: float = key(name="admission rule")


class Cost(Part):
    """Where step times come from."""

    source: str = key("", "where step times come from")
    steps: int = key("1", "steps")
    steps_outside: int = key("1", "of them outside the measured range")
    percent_outside: float | None = key("%")


class Summary(Document):
    """All metrics of a run."""

    title = "Summary"
    schema = "kvsim.summary/1"
    origin = "`kvsim simulate --json`, and `summary.json` of a run folder"

    trace: TraceName = key()
    scenario: ScenarioNames = key()
    engine: EngineUsed = key()
    partial: bool = key("", "stopped by Ctrl-C: what follows is the part before it")
    notes: list[str] = key("", "sentences on what the inputs do to the numbers")
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
    relocations: Relocations | None = key(
        "", "`null` but for reservations that may be outgrown or slid"
    )
    copy_on_write: CopyOnWrite = key()
    retention: Retention | None = key("", "`null` but for chosen retention (docs/retention.md)")
    stalls: Stalls = key()
    queue: Queue = key()
    users: Users | None = key("", "`null` where the trace names no users")
    prediction: Prediction | None = key("", "`null` without a length predictor")
    waited_s: Waited = key("s", "request-seconds of waiting, by what the queue's head waited for")
    cost: Cost = key()
