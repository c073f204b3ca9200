"""What fits on a card. Bytes are those of one rank, the binding one, where nothing else is said."""

from __future__ import annotations

from kvsim.traces.common.part import Document, Part, key


class TokenBytes(Part):
    """What a token takes while no window is full."""

    per_rank: int = key("B", "while no window is full")
    total: int = key("B", "over all ranks, copies included")
    scales_per_rank: int = key("B", "of them scales")
    formula: str = key("", "with the numbers put in")


class Group(Part):
    """Like layers of a model."""

    kind: str = key("", "`full`, `window`, `mla`, `state`, ...")
    layers: int = key("1", "of one group of like layers")
    storing_layers: int = key("1", "of them that store KV of their own")
    kv_heads: int = key("1")
    head_dim: int = key("1")
    v_head_dim: int = key("1")
    window: int | None = key("1", "tokens kept; `null` where all are")
    bytes_per_token: int = key("B", "of the group")
    bytes_fixed: int = key("B", "of the group")
    bytes_at_max_model_len: int = key("B", "of the group")


class Tables(Part):
    """Block tables of vLLM, which all take their blocks from the pool."""

    count: int = key("1", "tables")
    state_tables: int = key("1", "of them those of state")
    layers: int = key("1", "height of a table")
    padding_layers: int = key("1", "layers that only pad")
    block_sizes: list[int] = key("1", "tokens a block")


class Fit(Part):
    """How many requests of one length fit at once."""

    tokens: int = key("1", "length of a request")
    requests: int = key("1", "so many fit at once")


class Term(Part):
    """A line of the split of a card's memory."""

    bytes: int = key("B")
    formula: str = key("", "with the numbers put in")
    assumed: bool = key("", "whether it stands on an assumption")


class Rank(Part):
    """One of several pipeline ranks."""

    rank: int = key("1", "with several pipeline ranks")
    first_layer: int = key("1")
    last_layer: int = key("1")
    num_blocks: int | None = key("1", "`null` where it stores no KV")
    weights_bytes: int | None = key("B", "`null` where the pool was given")
    kv_bytes: int = key("B")
    block_bytes: int = key("B")


class Lever(Part):
    """One change of the command line and the bytes a rank gains by it."""

    change: str = key("", "where it does not fit: a change that frees memory, best first")
    freed_bytes: int = key("B")
    enough: bool = key("", "whether one request of the longest length then fits")


class SwapCost(Part):
    """Swapping one request against computing it again."""

    tokens: int = key("1", "its length")
    swap_s: float = key("s")
    recompute_s: float = key("s")
    break_even_tokens: int | None = key("1", "from this length on swapping is quicker")
    cost: str = key("", "where the times of steps come from")
    link: str = key("", "where the times of copies come from")


class LogFigure(Part):
    """A figure of both, ours and the log's; ``None`` where one of them has none."""

    name: str = key("", "with `--match-log`: a figure of the log beside ours")
    unit: str = key()
    why: str = key("", "why they differ")
    ours: float | None = key("in `unit`")
    theirs: float | None = key("in `unit`")


class Plan(Document):
    """What fits on a card, by the rule of an engine."""

    title = "Plan"
    schema = "kvsim.plan/1"
    origin = "`kvsim plan --json`; where not even one block fits, what is then undefined is `null`"

    model: str = key("", "what is planned for: its name")
    hardware: str = key("", "what is planned for: its name")
    engine: str = key("", "what is planned for: its name")
    tp: int = key("1", "tensor-parallel ranks")
    pp: int = key("1", "pipeline-parallel ranks")
    binding_rank: str | None = key("", "the rank with the fewest blocks: bytes below are its own")
    max_model_len: int = key("1", "longest sequence, tokens")
    kv_dtype: str = key("", "format of the KV cache")
    kv_bytes_per_token: TokenBytes = key()
    kv_bytes_fixed_per_request: int = key("B", "state that does not grow")
    kv_bytes_per_request: int = key("B", "one request of `max_model_len`")
    groups: list[Group] = key()
    num_blocks: int = key("1", "blocks, pages or slots")
    null_blocks: int | None = key("1", "of them no request gets")
    block_size: int | None = key("1", "tokens a block")
    block_bytes: int = key("B")
    tables: Tables | None = key("", "block tables of vLLM; `null` for other engines")
    pool_tokens: int = key("1", "tokens that the pool holds")
    kv_pool_bytes: int = key("B")
    max_concurrency: float = key("1", "requests of `max_model_len` at once, as vLLM's log has it")
    requests: dict[str, Fit] = key(
        "", "by length: `worst_length`, and with `--trace` its `trace_mean` and `trace_p95`"
    )
    max_num_seqs: int = key("1", "largest number of running requests")
    max_num_batched_tokens: int = key("1", "token budget of a step")
    step_tokens: int = key("1", "tokens of steps in flight")
    max_model_len_that_fits: int = key("1", "tokens of the longest lone request")
    fits: bool = key("", "whether one request of `max_model_len` does")
    cpu_blocks: int = key("1", "blocks in host memory, a rank")
    weights_bytes: int = key("B")
    terms: dict[str, Term] = key(
        "", "the split of a card's memory by term: `usable` less the others is `kv`"
    )
    ranks: list[Rank] = key()
    levers: list[Lever] = key()
    swap: SwapCost | None = key(
        "",
        "swapping one request against computing it again; `null` without swap space",
    )
    log: list[LogFigure] = key()
    notes: list[str] = key()
    error: str | None = key("", "why not one block fits")
