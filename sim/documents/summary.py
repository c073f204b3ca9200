"""The summary of a run: every metric. Definitions and denominators are in ``docs/metrics.md``."""

from __future__ import annotations

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


class States(Part):
    """KV memory by state; shares sum to the whole."""

    token: float = key()
    reserved: float = key()
    internal: float = key()
    external: float = key()
    cached: float = key()
    free: float = key()


class PaperStates(Part):
    """The same as the PagedAttention paper (SOSP 2023) counts it."""

    token: float = key()
    reserved: float = key()
    internal: float = key()
    external: float = key()


class Primitives(Part):
    """KV memory by its ten primitives; shares sum to the whole."""

    token: float = key()
    duplicate: float = key()
    future: float = key()
    never: float = key()
    padding: float = key()
    hole: float = key()
    blocked: float = key()
    cached: float = key()
    free: float = key()
    unusable: float = key()


class Sharing(Part):
    """What owners save because some of their blocks have several."""

    factor: float | None = key("1", "logical by physical bytes of owned blocks")
    savings_percent: float | None = key("%", "of the blocks that owners hold")


class MemoryHeld(Part):
    """What the pool held over a stretch of time."""

    seconds: float = key("s", "time that the shares below are over")
    states_percent: States = key("%", "KV memory by state; sums to 100")
    sosp23_percent: PaperStates = key("%", "the same as the PagedAttention paper counts it")
    primitives_percent: Primitives = key("%", "the same by primitives")
    primitives_mean_bytes: Primitives = key("B", "mean over time")
    sharing: Sharing = key()


class Memory(Part):
    """The pool and what it held."""

    pool_bytes: int = key("B", "KV memory on each rank")
    block_bytes: int = key("B", "a block of it, on each rank")
    num_gpu_blocks: int = key("1", "blocks (or slots)")
    block_size: int = key("1", "tokens a block")
    all_time: MemoryHeld = key()
    while_waiting: MemoryHeld = key()


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


class Host(Part):
    """Host memory that swapped blocks took."""

    swapped_out_bytes: int = key("B", "copied to host memory")
    swapped_in_bytes: int = key("B", "copied back from it")
    mean_bytes: float = key("B", "held there, mean over time")
    peak_bytes: int = key("B", "most held there at a time")
    copying_s: float = key("s", "time of the copies")
    times_full: int = key("1", "victims that the host had no room for")


class Relocations(Part):
    """What became of outgrown reservations, and runs slid together."""

    grown_in_place: int = key("1", "outgrown reservations that grew where they were")
    moved: int = key("1", "outgrown reservations that moved")
    preempted: int = key("1", "outgrown reservations that preempted somebody")
    slid: int = key("1", "runs slid together")
    moved_bytes: int = key("B", "copied to move")
    slid_bytes: int = key("B", "copied to slide")
    copy_s: float = key("s", "time that steps lasted longer for it")


class CopyOnWrite(Part):
    """Blocks of sequence groups that one sequence wrote to."""

    blocks: int = key("1", "blocks of sequence groups copied because one sequence wrote to them")
    bytes: int = key("B")
    copy_s: float = key("s")


class PeakBytes(Part):
    """Most that one sequence held, by what it was doing."""

    prompt: int = key()
    recomputing: int = key()
    decoding: int = key()


class Compaction(Part):
    """Kept tokens packed into fewer blocks."""

    freed_blocks: int = key("1")
    copied_bytes: float = key("B")
    copy_s: float = key("s")


class Scores(Part):
    """Attention scores beside the kept tokens."""

    mean_bytes: float = key("B", "attention scores, outside the pool")
    peak_bytes: int = key("B", "most of them at a time")


class Retention(Part):
    """What chosen retention dropped and kept."""

    kind: str = key()
    budget: int = key("1", "tokens kept of a sequence")
    full_mean_bytes: float = key("B", "all computed tokens")
    shared_mean_bytes: float = key("B", "what block tables hold")
    per_head_mean_bytes: float = key("B", "tables of each head's own")
    holes_mean_bytes: float = key("B", "holes among what is held")
    holes_percent_of_held: float | None = key("%")
    peak_bytes_of_one: PeakBytes = key("B", "most that one sequence held")
    compaction: Compaction | None = key("", '`null` but for `retention.compaction = "eager"`')
    scores: Scores | None = key("", "`null` but for `heavy-hitters`")
    attention_mass_kept: float | None = key("1", "share; `null` without a file of scores")


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
    seats: float = key()
    budget: float = key()
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
