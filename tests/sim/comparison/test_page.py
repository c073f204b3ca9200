"""The page of a comparison: offline, escaped, the best marked, the numbers of the rows."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from kvsim.sim.comparison.comparison import Comparison, compare
from kvsim.sim.comparison.lines import said_of
from kvsim.sim.comparison.pages.charts import overview_figure
from kvsim.sim.comparison.pages.page import comparison_page
from kvsim.sim.comparison.presets import Published, PublishedLine, PublishedTable
from kvsim.sim.comparison.scenarios import allocator_scenarios
from kvsim.traces import bundled_path, read_trace
from kvsim.traces.common.text import number
from kvsim.traces.trace.trace import Trace

EVIL = '<img src=x onerror="alert(1)">'


@pytest.fixture(scope="module")
def result() -> Comparison:
    small: dict[str, object] = {"engine.kv_memory": "1GiB", "engine.max_model_len": 4096}
    named = allocator_scenarios("orca-oracle,paged,prefix")
    scenarios = {name: scenario.with_values(small) for name, scenario in named.items()}
    trace = read_trace(bundled_path("chat-2k"), limit=60)
    return compare(trace, scenarios, jobs=1, rate_scale=30)


def page_of(result: Comparison, published: Published | None = None) -> str:
    return "".join(comparison_page(result, published))


def test_the_page_needs_no_network(result: Comparison) -> None:
    page = page_of(result)
    assert not re.search(r"<script[^>]*\ssrc=", page)
    assert "<link" not in page
    assert len(page) < 2_000_000, "plotly's code is inside once"
    assert page.count('class="plot"') == 4
    assert page.count("What to see:") == 6
    for text in ("KV memory by state, %", "3 runs compared", "chat-2k, 60 requests", "what binds"):
        assert text in page


def test_the_best_of_a_column_is_marked(result: Comparison) -> None:
    page = page_of(result)
    seen = page[: page.index("KV memory in")]
    (row,) = re.findall(r'<tr><th scope="row">prefix</th>(.*?)</tr>', seen)
    assert 'class="best"' in row
    assert page.count("<thead>") == 2


def test_what_holds_for_some_runs_names_them(result: Comparison) -> None:
    first, *others = result.rows
    noted = [replace(row, notes=["all", "some"], verified="checked") for row in others]
    rows = (replace(first, notes=["all", "one"], verified="checked"), *noted)
    page = page_of(replace(result, rows=rows, notes=("told",)))
    notes = page[page.index("<h2>Notes") :]
    for note in ("told", "all", "orca-oracle: one", "paged, prefix: some"):
        assert f"<li>{note}</li>" in notes
    head = page[: page.index("<h2>")]
    for rules in ("orca-oracle: orca-oracle: checked", "paged, prefix: vllm-0.32: checked"):
        assert f"<dt>rules</dt><dd>{rules}</dd>" in head
    assert f"<dt>step cost</dt><dd>{first.cost.source}" in head, "all runs have one"


def test_many_runs_are_counted() -> None:
    assert said_of([(f"run {n}", "so") for n in range(9)], 10) == [
        "run 0, run 1, run 2, run 3, run 4, run 5, 3 more: so"
    ]
    assert said_of([("a, x = 1", "so"), ("a, x = 2", "so")], 3) == ["a, x = 1; a, x = 2: so"]


def test_the_stacked_bars_come_first(result: Comparison) -> None:
    page = page_of(result)
    order = [
        '<p class="lead">',
        "KV memory, throughput and latency</h2>",
        'class="plot"',
        '<dl class="facts">',
        "<h2>Verdicts</h2>",
        "What users see</h2>",
    ]
    places = [page.index(text, page.index("<body>")) for text in order]
    assert places == sorted(places)
    assert page.index("<h2") == page.index('<h2 id="chart-1-title">')


def test_the_lead_counts_overloaded_runs_and_names_the_best_of_one_trace(
    result: Comparison,
) -> None:
    def lead(result: Comparison) -> str:
        (text,) = re.findall(r'<p class="lead">(.*?)</p>', page_of(result))
        return str(text).replace("\u00a0", " ")

    best = max(result.rows, key=lambda row: row.metrics.sustained_requests_per_s or 0)
    rate = number(best.metrics.sustained_requests_per_s)
    told = f"The highest sustained rate is {rate} requests/s ({best.name})."
    assert told in lead(result)
    rows = [replace(row, verdict=replace(row.verdict, kind="overloaded")) for row in result.rows]
    assert lead(replace(result, rows=tuple(rows))) == f"All runs are overloaded. {told}"
    rows[1:] = [replace(row, verdict=replace(row.verdict, kind="stable")) for row in rows[1:]]
    some = f"1 of 3 runs is overloaded ({rows[0].name}). {told}"
    assert lead(replace(result, rows=tuple(rows))) == some
    rows[0] = replace(rows[0], trace="another", verdict=rows[1].verdict)
    assert lead(replace(result, rows=tuple(rows))) == "No run is overloaded."


def test_a_bar_of_shares_stands_beside_throughput_and_latency(result: Comparison) -> None:
    figure = result.plot.memory()
    assert figure.layout.barmode == "stack"
    states = [bar for bar in figure.data if bar.meta["panel"] == "KV memory" and bar.type == "bar"]
    for place in range(len(result.rows)):
        assert sum(bar.x[place] for bar in states) == pytest.approx(100, abs=0.04)
    beside = {bar.name: bar for bar in figure.data if bar.meta["panel"] != "KV memory"}
    assert list(beside) == ["sustained req/s", "TTFT p50"]
    assert list(beside["TTFT p50"].x) == [row.metrics.ttft_s_p50 for row in result.rows]
    titles = [title.text for title in figure.layout.annotations]
    assert titles == ["KV memory by state, %", *beside], "a phone shows a panel for each"


def test_every_bar_has_the_number_of_its_token_share(result: Comparison) -> None:
    share = result.rows[0].kv_bytes_share.all_time
    assert share is not None
    small = replace(share, token=0.02, duplicate=0.0, free=0.98)
    shares = [small, *(other.kv_bytes_share.all_time for other in result.rows[1:])]
    figure = overview_figure(result.rows, shares, [])
    inside, behind = (trace for trace in figure.data if trace.name == "token")
    assert inside.text[0] == ""
    assert all(inside.text[1:])
    assert (behind.x, behind.y, behind.text) == ((2.0,), (0,), ("2.0",))


def test_states_without_a_share_are_not_in_the_legend(result: Comparison) -> None:
    shares = [row.kv_bytes_share.all_time for row in result.rows[1:]]
    bars = overview_figure(result.rows[1:], shares, []).data
    shown = {bar.name for bar in bars if bar.type == "bar" and bar.showlegend}
    seen = {bar.name for bar in bars if bar.type == "bar" and max(bar.x) >= 0.05}
    assert shown == seen
    assert "internal (never fills)" not in shown


def two_traces() -> Comparison:
    first = read_trace(bundled_path("chat-2k"), limit=30)
    traces = [replace(first, name="first"), replace(first, name="second, longer")]
    return compare(traces, allocator_scenarios("paged,prefix"), jobs=1, rate_scale=30)


def test_runs_are_grouped_by_trace_in_charts_and_tables() -> None:
    result = two_traces()
    names = [row.name for row in result.rows]
    assert [name.partition(", ")[2] for name in names] == ["first", "second, longer"] * 2
    labels = ["<b>first </b>", "paged ", "prefix ", "<b>second, longer </b>", "paged ", "prefix "]
    for figure in (result.plot.memory(), result.plot.users()):
        assert list(figure.layout.yaxis.ticktext) == labels
        for bar in (one for one in figure.data if one.type == "bar"):
            assert bar.y == (1, 2, 4, 5)
            assert list(bar.customdata) == [*names[::2], *names[1::2]]
    ttft_s = {row.name: row.metrics.ttft_s_p50 for row in result.rows}
    (bars,) = (bar for bar in result.plot.memory().data if bar.name == "TTFT p50")
    assert [ttft_s[name] for name in bars.customdata] == list(bars.x)
    page = page_of(result)
    table = page[page.index("What users see, in numbers") :]
    heads = re.findall(r'<th scope="row(?:group)?"[^>]*>(.*?)</th>', table)
    assert heads[:6] == ["first", "paged", "prefix", "second, longer", "paged", "prefix"]
    for title in ("KV memory over time: first", "KV memory over time: second, longer"):
        assert f"{title}</h2>" in page


def test_one_run_is_one(result: Comparison) -> None:
    assert "<h1>1 run compared</h1>" in page_of(replace(result, rows=result.rows[:1]))


def test_names_are_escaped(result: Comparison) -> None:
    rows = tuple(replace(row, name=EVIL, trace=EVIL, notes=[EVIL]) for row in result.rows)
    traces = (replace(result.traces[0], name=EVIL),)
    page = page_of(replace(result, rows=rows, traces=traces, notes=(EVIL,)))
    assert "<img" not in page[page.index("<body>") : page.index("<script>/**")]
    assert "&lt;img src=x" in page
    figure = overview_figure(rows, [row.kv_bytes_share.all_time for row in rows], []).to_json()
    assert "<img" not in figure


def test_bars_have_the_shares_of_the_rows(result: Comparison) -> None:
    shares = [row.kv_bytes_share.all_time for row in result.rows]
    bars = [bar for bar in overview_figure(result.rows, shares, []).data if bar.type == "bar"]
    assert shares[0] is not None
    assert [bar.x[0] for bar in bars] == pytest.approx(
        [
            100 * sum(shares[0].to_dict()[part] for part in parts)
            for parts in (
                *(("token", "duplicate"), ("future",), ("never", "padding")),
                *(("hole", "unusable"), ("cached",), ("free", "blocked")),
            )
        ],
        abs=0.006,
    )


def test_where_nobody_waits_the_whole_run_is_shown() -> None:
    trace = read_trace(bundled_path("chat-2k"), limit=2)
    page = page_of(compare(trace, allocator_scenarios("paged"), jobs=1))
    assert "holds tokens over the whole run, because no request waits: paged" in page
    assert "(no waiting)" not in page


def test_a_run_without_waiting_says_so_where_others_wait(result: Comparison) -> None:
    idle = replace(result.rows[0].kv_bytes_share, while_waiting=None)
    rows = (replace(result.rows[0], kv_bytes_share=idle), *result.rows[1:])
    labels = replace(result, rows=rows).plot.memory().layout.yaxis.ticktext
    assert [label for label in labels if "(no waiting)" in label] == ["orca-oracle (no waiting) "]


def test_published_numbers_stand_beside_ours(result: Comparison) -> None:
    lines = (PublishedLine("max", (20.4, (1.0, 2.0), None), (20.35, 1.5, 7.0)),)
    table = PublishedTable("shares", ("token", "ratio", "rest"), lines)
    page = page_of(result, Published("paper <1>", "fitted", (table,)))
    assert "Comparison with the paper &lt;1&gt;" in page
    assert '<th scope="row">max</th><td>paper</td><td>20.4</td><td>1 to 2</td><td>-</td>' in page
    assert "<td>difference</td><td>-0.05</td><td>-</td><td>-</td>" in page


def test_a_comparison_in_which_nothing_was_served_has_a_page() -> None:
    ones = np.ones(3, dtype=np.int64)
    trace = Trace("too long", np.arange(3) * 10**9, ones * 10**6, ones)
    result = compare(trace, allocator_scenarios("paged,prefix"), jobs=1, rate_scale=["1", "2"])
    page = page_of(result)
    assert "no request was served" in page
    assert "4 runs compared" in page
    assert "against arrival rate" not in page, "no winner where nobody serves"
    with pytest.raises(ValueError, match="no request was served"):
        result.plot.users()


def test_runs_whose_requests_take_no_time_have_true_words() -> None:
    free: dict[str, object] = {"cost.source": "linear", "cost.per_decode_seq": "1us"}
    for term in ("base", "per_prefill_token", "per_context_token"):
        free[f"cost.{term}"] = "0s"
    named = allocator_scenarios("paged,prefix")
    scenarios = {name: scenario.with_values(free) for name, scenario in named.items()}
    ones = np.ones(2, dtype=np.int64)
    trace = Trace("zero", np.array([0, 1000]), ones * 100, ones)
    result = compare(trace, scenarios, jobs=1)
    assert [row.metrics.finished for row in result.rows] == [2, 2]
    page = page_of(result)
    assert "all latencies of requests that finished are 0 or unknown" in page
    assert "no request was served" not in page
    for curve in (*result.plot.kv().data, *result.plot.queue().data):
        assert curve.x == (0, 2e-6), "from the start to the end of the one window"
    result.plot.latency()
    rated = compare(
        Trace("zero", np.array([0, 1000]), ones * 100, ones),
        scenarios,
        jobs=1,
        rate_scale=["1/2", 1],
    )
    assert "(logarithmic)" not in page_of(rated)
