"""The answer of ``kvsim plan`` as text, 80 columns wide: where memory goes, and what fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.cli.text.colour import as_label, joined
from kvsim.cli.text.table import WIDTH, cell, table, wrapped
from kvsim.sim.pool.attention_levers import LENGTHS, READ_AT
from kvsim.traces.common.text import amount, counted, number, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.documents.levers import LeverRow
    from kvsim.sim.documents.plan import Lever, LogFigure, Plan, Tables
    from kvsim.sim.pool.memory_terms import PoolRequest


FIRST: Final = 22
"""Width of the labels on the left."""
_GIB: Final = 2**30
_TERM_NAMES: Final = {"kv": "KV", "non_torch": "non-torch"}


def labelled(label: str, text: str) -> list[str]:
    """Lines of one fact, its label on the left."""
    return wrapped(label, text, first_width=FIRST)


def term_lines(document: Plan) -> list[str]:
    """Split of memory: what the engine may use, what it spends, what is left for KV."""
    terms = document.terms
    what = "one card" if document.tp * document.pp > 1 else "the card"
    lines = [as_label(f"memory of {what}, {document.hardware} under {document.engine}'s rule")]
    order = [name for name in terms if name != "kv"]
    for index, name in enumerate([*order, "kv"] if len(order) > 1 else ["kv"]):
        term = terms[name]
        sign = "=" if name == "kv" and len(order) > 1 else "-" if index else " "
        assumed = ", assumed" if term.assumed else ""
        shown = _TERM_NAMES.get(name, name.replace("_", " "))
        size = f"{sign} {term.bytes / _GIB:,.2f} GiB"
        lines += wrapped(f"  {shown:<16}{size:>13}", term.formula + assumed, first_width=33, hang=2)
    return lines


def rank_lines(document: Plan) -> list[str]:
    """Pipeline ranks side by side, the binding one named."""
    if not document.ranks:
        return []
    rows = [("pipeline rank", "layers", "weights", "KV", "blocks")]
    for rank in document.ranks:
        weights = rank.weights_bytes
        rows.append(
            (
                f"  {rank.rank}",
                f"{rank.first_layer}-{rank.last_layer}",
                "-" if weights is None else amount(weights),
                amount(rank.kv_bytes),
                number(rank.num_blocks),
            )
        )
    return [*table(rows, first_width=FIRST), *labelled("binding", document.binding_rank or "-")]


_WIDEST_CELL: Final = 11


def plan_lines(document: Plan) -> list[str]:
    """Lines of the whole answer, parts separated by an empty line."""
    parts = (
        term_lines(document),
        rank_lines(document),
        token_lines(document),
        group_lines(document),
        pool_lines(document),
        request_lines(document),
        lever_hint_lines(document.levers),
        swap_lines(document),
        log_lines(document.log),
        note_lines(document),
    )
    lines: list[str] = []
    for part in parts:
        if part:
            lines += [*part, ""]
    return lines[:-1]


def too_small_lines(document: Plan) -> list[str]:
    """Lines where not even one block fits: the split, what is needed, what would help."""
    length, need = document.max_model_len, amount(document.kv_bytes_per_request)
    each = " on each rank" if document.tp * document.pp > 1 else ""
    return [
        *term_lines(document),
        "",
        *token_lines(document),
        *labelled("one request", f"{need} at {length:,} tokens{each}"),
        "",
        *lever_hint_lines(document.levers),
        *([""] if document.notes else []),
        *note_lines(document),
    ]


def note_lines(document: Plan) -> list[str]:
    """Sentences for the reader, one label each."""
    return [line for note in document.notes for line in labelled("note", note)]


def token_lines(document: Plan) -> list[str]:
    """Bytes a token and a request, with the formula and its numbers."""
    token, ranks = document.kv_bytes_per_token, document.tp * document.pp
    lines = labelled("bytes a token", f"{token.per_rank:,} B = {token.formula}")
    if token.scales_per_rank:
        payload = token.per_rank - token.scales_per_rank
        lines += labelled("", f"{payload:,} B payload + {token.scales_per_rank:,} B scales")
    if ranks > 1:
        lines += labelled("", f"{token.total:,} B over all {ranks} ranks, copies included")
    fixed = document.kv_bytes_fixed_per_request
    if fixed:
        text = f"{fixed:,} B of state ({amount(fixed)}), whatever its length"
        lines += labelled("bytes a request", text)
    return lines


def group_lines(document: Plan) -> list[str]:
    """One row a layer group of a mixed model."""
    groups = document.groups
    if len(groups) < 2:
        return []
    at_length = f"at {document.max_model_len:,}"
    if len(at_length) > _WIDEST_CELL:
        at_length = "at longest"
    rows = [("layers", "kind", "KV heads", "head dim", "window", "B a token", at_length)]
    for group in groups:
        stores = group.storing_layers != group.layers
        count = f"{group.storing_layers} of {group.layers}" if stores else group.layers
        is_state = group.kind == "state"
        same = group.v_head_dim in (group.head_dim, 0)
        dims = group.head_dim if same else f"{group.head_dim}+{group.v_head_dim}"
        rows.append(
            (
                f"{count}",
                group.kind,
                "-" if is_state else f"{group.kv_heads}",
                "-" if is_state else f"{dims}",
                "-" if group.window is None else f"{group.window:,}",
                "-" if is_state else f"{group.bytes_per_token:,}",
                amount(group.bytes_at_max_model_len),
            )
        )
    return table(rows, first_width=8)


def pool_lines(document: Plan) -> list[str]:
    """Blocks, tokens, and the two lines of vLLM's log."""
    assert document.block_size is not None, "what fits has blocks"
    null = ", 1 of them the null block" if document.null_blocks else ""
    what = {"vllm": "blocks", "sglang": "pages"}.get(document.engine, "slots")
    lines = labelled(
        what,
        f"{document.num_blocks:,} x {counted(document.block_size, 'token')}"
        f" ({document.block_bytes:,} B){null}",
    )
    lines += labelled("pool", f"{document.pool_tokens:,} tokens")
    lines += _tables(document.tables)
    length = document.max_model_len
    if document.engine == "vllm":
        concurrency = as_label(f"Maximum concurrency for {length:,} tokens per request")
        lines.append(joined(concurrency, f": {document.max_concurrency:.2f}x"))
        lines += wrapped(
            "  a floor:",
            "blocks are given as a request grows; more run at once, up to "
            f"{document.max_num_seqs:,} running requests (max_num_seqs) and"
            f" {document.max_num_batched_tokens:,} tokens a step (max_num_batched_tokens)",
            first_width=11,
        )
        lines += _windows(document)
    return lines


def _windows(document: Plan) -> list[str]:
    """Say why the log's figure and the requests below differ where layers slide."""
    if all(group.window is None for group in document.groups):
        return []
    text = (
        f"charged {document.step_tokens:,} tokens of steps in flight beside their own in the"
        " line above, as the engine does at start; 1 below, as while decoding"
    )
    return wrapped("  windows:", text, first_width=11)


def _tables(tables: Tables | None) -> list[str]:
    """Block tables of a mixed model, which all take their blocks from the pool."""
    if tables is None or tables.count < 2:
        return []
    text = f"{tables.count} block tables of {tables.layers} layers"
    if tables.padding_layers:
        text += f" ({tables.padding_layers} layers in all are padding)"
    if len(set(tables.block_sizes)) > 1:
        sizes = sorted(set(tables.block_sizes))
        text += f", blocks of {' or '.join(map(str, sizes))} tokens"
    lines = labelled("  shared by", text)
    if tables.state_tables:
        text = (
            f"{tables.state_tables} of them hold states, one block a request each: tokens of the"
            " pool over tokens of a request is not the number of requests"
        )
        lines += labelled("", text)
    return lines


def request_lines(document: Plan) -> list[str]:
    """Requests at once by length, and the longest length that fits."""
    names = {"worst_length": "worst length", "trace_mean": "trace mean", "trace_p95": "trace p95"}
    rows = [("requests at once", "tokens each", "requests")]
    for name, entry in document.requests.items():
        label = f"  {names.get(name, name)}"
        rows.append((label, f"{entry.tokens:,}", f"{entry.requests:,}"))
    lines = table(rows, first_width=FIRST, width=FIRST + 28)
    length, longest = document.max_model_len, document.max_model_len_that_fits
    each = "" if document.tp * document.pp == 1 else " on each rank"
    lines += labelled(
        "one request", f"{amount(document.kv_bytes_per_request)} at {length:,} tokens{each}"
    )
    if document.fits:
        lines += labelled("longest that fits", f"{longest:,} tokens")
    else:
        lines += labelled(
            "DOES NOT FIT",
            f"{length:,} tokens: the longest request that fits has {longest:,} tokens",
        )
    return lines


def lever_hint_lines(levers: Sequence[Lever]) -> list[str]:
    """Single changes that free memory, best first."""
    if not levers:
        return []
    title = as_label("single changes that free most")
    lines: list[str] = [joined(title, " (beyond one request of the longest length)")]
    for lever in levers:
        enough = "fits then" if lever.enough else "not enough alone"
        freed = cell("+" + amount(lever.freed_bytes), 14)
        lines.append(f"  {lever.change:<38}{freed}  {enough}")
    return lines


def swap_lines(document: Plan) -> list[str]:
    """CPU blocks, and swapping against recomputing."""
    lines = []
    if document.cpu_blocks:
        lines += labelled("CPU blocks", f"{document.cpu_blocks:,} a rank")
    swap = document.swap
    if swap is not None:
        even = swap.break_even_tokens
        pays = (
            "never pays up to there" if even is None else f"pays from {counted(even, 'token')} on"
        )
        lines += labelled(
            "swap or recompute",
            f"{swap.tokens:,} tokens: out and in {seconds(swap.swap_s)} over the host link"
            f" ({swap.link}), recompute {seconds(swap.recompute_s)} ({swap.cost});"
            f" swapping {pays}",
        )
    return lines


def log_lines(rows: Sequence[LogFigure]) -> list[str]:
    """Ours beside a start-up log, each difference with its reason."""
    if not rows:
        return []
    lines = table([("beside the log", "ours", "theirs")], first_width=FIRST, width=FIRST + 24)
    for row in rows:
        ours, theirs = (_figure(value, row.unit) for value in (row.ours, row.theirs))
        lines.append(f"  {row.name:<{FIRST - 2}}{cell(ours, 12)}{cell(theirs, 12)}")
        if row.why:
            lines += wrapped("", row.why, first_width=4, width=WIDTH)
    return lines


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    if unit:
        return f"{value:,.2f} {unit}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}x"


_FIRST: Final = 22


def lever_lines(request: PoolRequest, rows: Sequence[LeverRow]) -> list[str]:
    """Lines of the table, one block of rows a lever."""
    model, hardware = request.model, request.hardware
    ranks = f", tp {request.tp}" if request.tp > 1 else ""
    heads = ("B a token", *(f"{n // 1024}K" for n in LENGTHS), "factor", "read")
    lines = wrapped(
        "",
        f"requests that fit at once on {hardware.name}{ranks} with the weights of {model.name};"
        f" factor and read: one request of {READ_AT // 1024}K tokens",
        first_width=0,
    )
    lines.append(f"{'':<{_FIRST}}" + _cells(heads))
    section = ""
    for row in rows:
        if row.section != section:
            section = row.section
            lines += ["", as_label(section)]
        cells = (
            number(row.bytes_per_token),
            *(number(row.requests[length]) for length in LENGTHS),
            f"{row.factor:.4g}x",
            seconds(row.read_s),
        )
        lines.append(f"  {row.name:<{_FIRST - 2}}" + _cells(cells))
    lines += ["", *wrapped("", _footnote(request), first_width=0)]
    return lines


def _cells(cells: Sequence[str]) -> str:
    widths = (10, 7, 7, 7, 7, 9, 10)
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _footnote(request: PoolRequest) -> str:
    return (
        "factor: times fewer bytes than the first row of its part. read: the least that reading its"
        " cache adds to a decode step, bytes over the datasheet's"
        f" {request.hardware.bandwidth_bytes_per_s / 1e9:,.0f} GB/s;"
        " what unpacking a smaller format costs is not known here."
    )
