"""What fits on a card. Bytes are those of the binding rank, unless the key says otherwise."""

from __future__ import annotations

from kvsim.traces.common.part import Document, Part, key


class TokenBytes(Part):
    """KV memory of a token while no sliding window is full."""

    per_rank: int = key("B", "while no window is full")
    total: int = key("B", "over all ranks, including copies")
    scales_per_rank: int = key("B", "of these, scales")
    formula: str = key("", "formula with its numbers")


class Group(Part):
    """Layers of a model of one kind."""

    kind: str = key("", "`full`, `window`, `mla`, `state`, ...")
    layers: int = key("1", "layers in the group")
    storing_layers: int = key("1", "of these, layers that store their own KV")
    kv_heads: int = key("1")
    head_dim: int = key("1")
    v_head_dim: int = key("1")
    window: int | None = key("1", "tokens kept; `null` if all are kept")
    bytes_per_token: int = key("B", "of the group")
    bytes_fixed: int = key("B", "of the group")
    bytes_at_max_model_len: int = key("B", "of the group")


class Tables(Part):
    """Block tables of vLLM, which all take their blocks from the pool."""

    count: int = key("1", "tables")
    state_tables: int = key("1", "of these, tables of state")
    layers: int = key("1", "layers of a table")
    padding_layers: int = key("1", "layers that are padding")
    block_sizes: list[int] = key("1", "tokens in a block")


class Fit(Part):
    """How many requests of one length fit at once."""

    tokens: int = key("1", "length of a request")
    requests: int = key("1", "number of requests that fit at once")


class Term(Part):
    """A line of the split of a card's memory."""

    bytes: int = key("B")
    formula: str = key("", "formula with its numbers")
    assumed: bool = key("", "whether it is assumed")


class Rank(Part):
    """One of several pipeline ranks."""

    rank: int = key("1", "with several pipeline ranks")
    first_layer: int = key("1")
    last_layer: int = key("1")
    num_blocks: int | None = key("1", "`null` if it stores no KV")
    weights_bytes: int | None = key("B", "`null` if the pool was given")
    kv_bytes: int = key("B")
    block_bytes: int = key("B")


class Lever(Part):
    """A change of the command line, and the bytes that a rank gains by it."""

    change: str = key("", "if it does not fit: a change that frees memory, best first")
    freed_bytes: int = key("B")
    enough: bool = key("", "whether one request of the longest length then fits")


class SwapCost(Part):
    """Swapping one request against computing it again."""

    tokens: int = key("1", "length of the request")
    swap_s: float = key("s")
    recompute_s: float = key("s")
    break_even_tokens: int | None = key("1", "length from which swapping is faster")
    cost: str = key("", "source of the step times")
    link: str = key("", "source of the copy times")


class LogFigure(Part):
    """A figure of the plan (`ours`) and of the log (`theirs`); ``None`` if one has none."""

    name: str = key("", "with `--match-log`: a figure of the log and of the plan")
    unit: str = key()
    why: str = key("", "why they differ")
    ours: float | None = key("in `unit`")
    theirs: float | None = key("in `unit`")


class Plan(Document):
    """What fits on a card, by the rule of an engine."""

    title = "Plan"
    schema = "kvsim.plan/1"
    origin = "`kvsim plan --json`; where not even one block fits, what is then undefined is `null`"

    model: str = key("", "name")
    hardware: str = key("", "name")
    engine: str = key("", "name")
    tp: int = key("1", "tensor-parallel ranks")
    pp: int = key("1", "pipeline-parallel ranks")
    binding_rank: str | None = key(
        "", "the rank with the fewest blocks; the bytes below are those of this rank"
    )
    max_model_len: int = key("1", "longest sequence, tokens")
    kv_dtype: str = key("", "format of the KV cache")
    kv_bytes_per_token: TokenBytes = key()
    kv_bytes_fixed_per_request: int = key("B", "state that does not grow")
    kv_bytes_per_request: int = key("B", "one request of `max_model_len`")
    groups: list[Group] = key()
    num_blocks: int = key("1", "blocks, pages or slots")
    null_blocks: int | None = key("1", "of these, blocks that no request gets")
    block_size: int | None = key("1", "tokens in a block")
    block_bytes: int = key("B")
    tables: Tables | None = key("", "block tables of vLLM; `null` for other engines")
    pool_tokens: int = key("1", "tokens that the pool holds")
    kv_pool_bytes: int = key("B")
    max_concurrency: float = key(
        "1", "requests of `max_model_len` that fit at once, as in the log of vLLM"
    )
    requests: dict[str, Fit] = key(
        "", "by length: `worst_length`, and with `--trace` its `trace_mean` and `trace_p95`"
    )
    max_num_seqs: int = key("1", "largest number of running requests")
    max_num_batched_tokens: int = key("1", "token budget of a step")
    step_tokens: int = key("1", "tokens of the steps in flight")
    max_model_len_that_fits: int = key("1", "longest request that fits alone, tokens")
    fits: bool = key("", "whether one request of `max_model_len` fits")
    cpu_blocks: int = key("1", "blocks in host memory of each rank")
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
    error: str | None = key("", "reason why no block fits")
