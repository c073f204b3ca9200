"""The page of ``kvsim plan``: how a card's memory is used, and how many requests fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import escaped, laid_out, log_ticks, new_figure
from kvsim.sim.report.page import Head, bullets, page
from kvsim.sim.report.palette import BLUE, CYCLE, GREY, VERMILLION, on_colour
from kvsim.sim.report.tables import table_html
from kvsim.traces.common.text import amount, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kvsim.sim.documents.plan import Plan, Term
    from kvsim.sim.pool.plan import Pool
    from kvsim.sim.report.page import Block

_GIB: Final = 2**30
_SHORTEST: Final = 128
_NAMES: Final = {"kv": "KV", "non_torch": "non-torch", "worst_length": "longest length"}
_HEADS: Final = ("", "GiB", "how")


def plan_page(document: Plan, pool: Pool | None) -> Iterator[str]:
    """Return the parts of the page of a plan; ``pool`` is ``None`` when no block fits."""
    return page(_head(document), _blocks(document, pool))


def _head(document: Plan) -> Head:
    split = f", tp {document.tp}, pp {document.pp}"
    token, length = document.kv_bytes_per_token, document.max_model_len
    facts = [
        ("scenario", f"{document.model} on {document.hardware}{split}"),
        ("rules", f"{document.engine}'s own start-up accounting (docs/memory.md)"),
        ("a token", f"{token.per_rank:,} B = {token.formula}"),
        ("a request", f"{amount(document.kv_bytes_per_request)} at {length:,} tokens"),
        ("pool", f"{document.num_blocks:,} blocks, {document.pool_tokens:,} tokens"),
        ("assumed", _assumed(document)),
    ]
    fits, longest = document.fits, document.max_model_len_that_fits
    alarm = "" if fits else f"Does not fit: {document.error or _too_long(document)}"
    lead = f"The longest request that fits has {longest:,} tokens." if fits else ""
    return Head(f"kvsim plan: {document.model} on {document.hardware}", tuple(facts), lead, alarm)


def _too_long(document: Plan) -> str:
    return (
        f"{document.max_model_len:,} tokens; the longest request that fits has "
        f"{document.max_model_len_that_fits:,}"
    )


def _assumed(document: Plan) -> str:
    names = [_name(name) for name, term in document.terms.items() if term.assumed]
    return ", ".join(names) or "nothing: all terms are given or counted"


def _blocks(document: Plan, pool: Pool | None) -> Iterator[Block]:
    yield memory_chart(document)
    rows = [
        (_name(name), f"{term.bytes / _GIB:,.2f}", _how(term))
        for name, term in document.terms.items()
    ]
    yield table_html("Memory terms", _HEADS, rows, last_is_words=True)
    if pool is not None:
        yield fit_chart(document, pool)
    yield bullets(
        "Single changes that free most",
        (
            f"{lever.change}: +{amount(lever.freed_bytes)}, "
            f"{'fits then' if lever.enough else 'not enough alone'}"
            for lever in document.levers
        ),
    )
    yield bullets("Notes", document.notes)


def _how(term: Term) -> str:
    return f"{term.formula}{', assumed' if term.assumed else ''}"


def _name(key: str) -> str:
    return _NAMES.get(key, key.replace("_", " "))


def memory_chart(document: Plan) -> Chart:
    """One bar: the memory that the engine may use, cut into its uses and the rest for KV."""
    import plotly.graph_objects as go  # noqa: PLC0415 - only a report needs plotly

    terms = {name: term.bytes / _GIB for name, term in document.terms.items()}
    usable = terms.pop("usable", None)
    left = terms.pop("kv")
    figure, colours = go.Figure(), iter((*CYCLE[1:], *CYCLE[1:]))
    for name, gib in (*terms.items(), *([("kv", left)] if left > 0 else [])):
        colour = BLUE if name == "kv" else next(colours)
        figure.add_bar(
            x=[round(gib, 4)],
            y=["memory"],
            name=escaped(_name(name)),
            orientation="h",
            marker={"color": colour},
            text=[f"{escaped(_name(name))} {gib:.2f} GiB"],
            textposition="inside",
            insidetextanchor="middle",
            insidetextfont={"color": on_colour(colour)},
        )
    laid_out(figure, "memory of a card (GiB)", "", height=320)
    figure.update_layout(barmode="stack", hovermode="closest", legend_traceorder="normal")
    figure.update_layout(uniformtext={"mode": "hide", "minsize": 9})
    figure.update_yaxes(showticklabels=False)
    if usable is not None:
        figure.add_vline(x=usable, line={"color": GREY, "dash": "dash", "width": 4})
    words = ", ".join(f"{_name(name)} {gib:.2f}" for name, gib in terms.items())
    limit = "" if usable is None else f"The engine may use {usable:.2f} GiB (dashed line): "
    return Chart(
        "Where the memory goes",
        figure,
        "KV gets the memory that weights and the work of a step leave. The engine may not use the "
        "memory beyond the dashed line.",
        f"{limit}{f'{words}, ' if words else ''}KV {left:.2f} GiB.",
    )


def fit_chart(document: Plan, pool: Pool) -> Chart:
    """Number of requests of one length that fit at the same time, by that length."""
    lengths = _lengths(document.max_model_len_that_fits)
    counts = [pool.requests_of(length) for length in lengths]
    figure = new_figure("context (tokens, logarithmic)", "requests (logarithmic)")
    figure.add_scatter(
        x=lengths, y=counts, name="requests that fit", mode="lines+markers", line={"color": BLUE}
    )
    max_num_seqs = document.max_num_seqs
    figure.add_scatter(
        x=[lengths[0], lengths[-1]],
        y=[max_num_seqs, max_num_seqs],
        name="max_num_seqs",
        mode="lines",
        line={"color": GREY, "dash": "dash"},
    )
    asked = {name: entry for name, entry in document.requests.items() if entry.requests}
    figure.add_scatter(
        x=[entry.tokens for entry in asked.values()],
        y=[entry.requests for entry in asked.values()],
        text=[escaped(_name(name)) for name in asked],
        name="asked for",
        mode="markers+text",
        textposition="bottom left",
        marker={"color": VERMILLION, "size": 10, "symbol": "diamond"},
    )
    most = max(*counts, max_num_seqs, *(entry.requests for entry in asked.values()))
    figure.update_xaxes(**log_ticks(lengths, _tick))
    figure.update_yaxes(**log_ticks([1, most], _tick), rangemode="normal")
    words = "; ".join(
        f"{entry.requests:,} of {counted(entry.tokens, 'token')} ({_name(name)})"
        for name, entry in document.requests.items()
    )
    return Chart(
        "Requests that fit, by context length",
        figure,
        "memory limits the requests below the dashed line; max_num_seqs limits them above it.",
        f"At the same time: {words}.",
    )


def _tick(value: float) -> str:
    return f"{value:,.0f}"


def _lengths(longest: int) -> Sequence[int]:
    """Return powers of two up to the longest length, and the longest length."""
    powers = [2**power for power in range(_SHORTEST.bit_length() - 1, longest.bit_length())]
    return sorted({*powers, longest}) if longest else [1]
