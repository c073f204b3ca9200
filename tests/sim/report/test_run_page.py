"""The report page: one file, offline, escaped, the numbers of the run."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kvsim.sim.cost.step_cost import LinearCost
from kvsim.sim.hardware import load_hardware
from kvsim.sim.models import load_model
from kvsim.sim.pool.document import plan_document
from kvsim.sim.pool.memory_terms import PoolRequest
from kvsim.sim.pool.plan import plan
from kvsim.sim.recording.recorder import Recorder
from kvsim.sim.report.chart import Chart
from kvsim.sim.report.event_charts import STEP_PARTS
from kvsim.sim.report.glance_chart import binding_text, glance_chart
from kvsim.sim.report.palette import STATE_LABELS
from kvsim.sim.report.plan_page import memory_chart
from kvsim.sim.report.run_page import RunView, run_page
from kvsim.sim.report.run_plots import run_panels
from kvsim.sim.report.time_axis import time_axis
from kvsim.sim.run.options import RunOptions
from kvsim.sim.run.run import Run, simulate
from kvsim.sim.scenario.scenario import Scenario
from kvsim.sim.scenario.setup import set_up
from kvsim.traces import bundled_path, read_trace
from kvsim.traces.trace.trace import Trace
from tests.engine_run import run
from tests.page_kinds import small_run

if TYPE_CHECKING:
    from collections.abc import Callable

Run3 = tuple[Trace, Recorder]
SCRIPT_SOURCE = re.compile(r"<script[^>]*\ssrc=")


def page_of(run: Run) -> str:
    return "".join(run_page(run))


def test_the_page_needs_no_network(three_requests: Run3, make_run: Callable[..., Run]) -> None:
    page = page_of(make_run(*three_requests))
    assert not SCRIPT_SOURCE.search(page)
    assert "<link" not in page
    assert len(page) < 2_000_000, "plotly's code is inside once, not three times"
    assert page.count('class="plot"') == 9


def test_text_from_files_is_escaped(three_requests: Run3, make_run: Callable[..., Run]) -> None:
    trace, recorder = three_requests
    page = page_of(make_run(replace(trace, name="<script>alert(1)</script>"), recorder))
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_states_stack_up_to_the_pool(three_requests: Run3, make_run: Callable[..., Run]) -> None:
    figure = make_run(*three_requests).plot.kv()
    heights = np.array([curve.y for curve in figure.data]).sum(axis=0) * 2**30
    assert heights == pytest.approx(np.full(heights.shape, 17_700), rel=1e-3)


def test_queue_and_latency_curves(three_requests: Run3, make_run: Callable[..., Run]) -> None:
    run = make_run(*three_requests)
    assert [curve.name for curve in run.plot.queue().data] == ["waiting for KV blocks", "running"]
    curves = {curve.name: curve for curve in run.plot.latency().data}
    assert curves["TTFT"].x[0] == pytest.approx(0.105)
    assert curves["TTFT"].x[-1] == pytest.approx(0.2)
    assert curves["E2E"].x[-1] == pytest.approx(0.3)
    assert (curves["ITL"].y[0], curves["ITL"].y[-1]) == (0, 100)
    gaps = {curve.name: curve for curve in run.plot.gaps_over_time().data}
    longest_s = {x: y for x, y in zip(gaps["max"].x, gaps["max"].y, strict=True) if y is not None}
    assert [*longest_s.values()] == [0.04, 0.06]
    assert [*longest_s] == pytest.approx([0.25, 0.31], abs=0.01)
    assert run.series["gaps"].sum() == 2
    assert run.series["itl_p50_s"].max() == pytest.approx(0.06, rel=0.005)


def test_a_run_in_which_nothing_finished_has_a_page(make_run: Callable[..., Run]) -> None:
    one = np.ones(1, dtype=np.int64)
    page = page_of(make_run(Trace("none", one * 0, one, one), Recorder(1)))
    assert "Too short" in page


def test_preempted_requests_are_a_layer_of_the_queue(make_run: Callable[..., Run]) -> None:
    one, recorder = np.ones(3, dtype=np.int64), Recorder(3)
    recorder.interval(0, 10**11, 64, 16, 10, 16, 1)
    recorder.preempted(0, 10**11, 5)
    recorder.queue(10**11, 3, "blocks")
    recorder.interval(10**11, 3 * 10**11, 64, 16, 10, 16, 1)
    recorder.queue(3 * 10**11, 2, "max_num_seqs")
    recorder.admitted(0, 3 * 10**11, 0, resumed=True)
    recorder.queue(3 * 10**11, 2, "max_num_seqs")
    recorder.interval(3 * 10**11, 4 * 10**11, 64, 16, 10, 16, 1)
    recorder.queue(4 * 10**11, 0)
    run = make_run(Trace("three", one * 0, one, one), recorder)
    curves = {curve.name: np.array(curve.y) for curve in run.plot.queue().data}
    names = [
        "preempted, wait again",
        "waiting for max_num_seqs",
        "waiting for KV blocks",
    ]
    assert list(curves) == [*names, "running"]
    assert curves[names[0]].max() == pytest.approx(1)
    assert curves[names[2]].max() == pytest.approx(2)
    assert sum(curves[name] for name in names) == pytest.approx(run.series["waiting"], rel=1e-4)
    assert run.series["preempted"].to_numpy() @ run.series["seconds"] == pytest.approx(0.2)
    assert "Preempted requests by cause, on average: KV blocks 0.5" in page_of(run)


def test_charts_over_time_have_one_axis(three_requests: Run3, make_run: Callable[..., Run]) -> None:
    plot = make_run(*three_requests).plot
    ranges = {
        figure.layout.xaxis.range
        for figure in (plot.kv(), plot.queue(), plot.gaps_over_time(), plot.steps())
    }
    assert len(ranges) == 1
    assert None not in ranges


def test_latencies_of_no_time_have_an_axis(
    three_requests: Run3, make_run: Callable[..., Run]
) -> None:
    run = make_run(*three_requests)
    assert run.plot.latency().layout.xaxis.type == "log"
    at_once = run_panels({"a": run.plot.latency(), "b": instant_run().plot.latency()})
    assert {axis.type for axis in at_once.select_xaxes()} == {"log"}
    figure = instant_run().plot.latency()
    assert {curve.x[-1] for curve in figure.data} == {0.0}
    assert figure.layout.xaxis.type != "log"
    assert run_panels({"a": figure}).layout.xaxis.type != "log"
    page_of(instant_run())


def test_the_head_tells_what_was_changed_and_what_came_out() -> None:
    values: dict[str, object] = {"engine.max_num_seqs": 2, "engine.max_model_len": 4096}
    scenario = Scenario.load("vllm-0.32").with_values(values | {"slo.ttft": "5s"})
    run = simulate(read_trace(bundled_path("chat-2k"), limit=3), scenario)
    page = page_of(run)
    told = "engine.max_model_len = 4096; engine.max_num_seqs = 2"
    assert f"<dt>changed</dt><dd>{told}</dd>" in page
    rates, goodput = run.summary.throughput, run.summary.goodput
    assert goodput is not None
    assert f"<dt>throughput</dt><dd>{rates.requests_per_s:.4g} requests/s" in page
    assert f"<dt>goodput</dt><dd>{goodput.requests_per_s:.4g} requests/s, 100 %" in page
    assert "<dt>changed" not in page_of(simulate(run.trace))


def test_a_run_that_refuses_all_says_why() -> None:
    one = np.ones(1, dtype=np.int64)
    page = page_of(simulate(Trace("long", one * 0, one * 10**6, one)))
    assert "<dt>first refused</dt><dd>r0000: prompt of 1,000,000 tokens" in page
    assert "no step ran</dd>" in page
    assert "no %" not in page


def test_the_page_begins_with_the_verdict_and_with_what_requests_hold() -> None:
    values: dict[str, object] = {"engine.max_num_seqs": 2, "engine.max_model_len": 4096}
    scenario = Scenario.load("vllm-0.32").with_values(values)
    trace = read_trace(bundled_path("chat-2k"), limit=300)
    run = simulate(trace, scenario, rate_scale=30)
    page = page_of(run).replace("\u00a0", " ")
    states = run.summary.memory.all_time.states_percent
    held = states.token + states.reserved + states.internal
    assert states.cached > 10 * held, "the pool looks full of cached blocks"
    order = [
        '<p class="lead">Overloaded: ',
        "what binds: max_num_seqs.</p>",
        f"<p>Requests hold {held:.1f} % of the KV memory on average, ",
        f"Tokens take {states.token:.1f} %",
        f"Cached blocks take {states.cached:.1f} %; the allocator evicts them",
        "What binds, and what the KV memory holds</h2>",
        '<dl class="facts">',
        "KV memory by state</h2>",
    ]
    places = [page.index(text, page.index("<body>")) for text in order]
    assert places == sorted(places)


def test_the_first_picture_has_memory_and_waiting_time() -> None:
    run = small_run()
    chart = glance_chart(RunView(run))
    assert isinstance(chart, Chart)
    shares = {bar.name: dict(zip(bar.y, bar.x, strict=True)) for bar in chart.figure.data}
    memory = run.summary.memory
    for state, (label, _) in STATE_LABELS.items():
        for bar, held in (
            ("whole run", memory.all_time),
            ("while requests<br>wait", memory.while_waiting),
        ):
            share = getattr(held.states_percent, state)
            assert shares.get(label, {}).get(bar, 0.0) == pytest.approx(share, abs=0.01)
    waited_s = run.summary.waited_s
    total_s = sum(waited_s.to_dict().values())
    blocks = shares["KV blocks"]["all requests"]
    assert blocks == pytest.approx(100 * waited_s.blocks / total_s, abs=0.01)
    assert f"KV blocks {blocks:.1f} %" in chart.summary


def test_cached_memory_is_paler_than_memory_that_requests_hold() -> None:
    strong = {state for state, (_, colour) in STATE_LABELS.items() if colour.startswith("#")}
    assert strong == {"token", "reserved", "internal", "external"}


def test_what_binds_is_said_of_runs_that_are_not_overloaded(
    three_requests: Run3, make_run: Callable[..., Run]
) -> None:
    summary = make_run(*three_requests).summary
    waited = summary.waited_s

    def text(**seconds: float) -> str:
        causes = {
            **dict.fromkeys(("step", "max_num_seqs", "token_budget", "blocks"), 0.0),
            **seconds,
        }
        verdict = replace(summary.verdict, binds=None)
        return binding_text(replace(summary, verdict=verdict, waited_s=replace(waited, **causes)))

    assert text() == "Nothing in the server binds: no request waits."
    assert text(step=1.0).endswith("requests wait only for the step in progress.")
    mixed = text(step=3.0, blocks=6.0, token_budget=1.0)
    assert mixed.endswith("requests wait most for KV blocks (60 % of the waiting time).")
    binding = replace(summary, verdict=replace(summary.verdict, binds="blocks"))
    assert binding_text(binding) == "", "the verdict says so already"


def test_a_long_and_almost_empty_end_is_left_out_of_the_time_axis() -> None:
    starts_s = np.arange(100.0)
    requests = np.where(starts_s < 20, 50.0, 0.5)
    axis = time_axis(starts_s, np.ones(100), requests)
    assert axis.start_s == 0.0
    assert axis.end_s == pytest.approx(20.6)
    assert axis.note == (
        "The axis ends at 20.6 s. After 20 s, at most 0.5 requests are in the engine on average, "
        "until the run ends at 100 s. Double-click the chart to see the whole run."
    )
    for busy in (requests[:30], np.where(starts_s < 60, 50.0, 0.5), np.zeros(5), np.full(5, 2.0)):
        whole = time_axis(starts_s[: len(busy)], np.ones(len(busy)), busy)
        assert whole == (0.0, len(busy), "")


def test_time_before_the_first_requests_is_left_out_of_the_time_axis() -> None:
    starts_s = np.arange(100.0)
    assert time_axis(starts_s, np.ones(100), np.where(starts_s < 80, 0.0, 9.0))[:2] == (80, 100)


def test_charts_over_time_say_where_their_axis_is_cut() -> None:
    prompts, outputs = np.full(60, 50), np.full(60, 20)
    outputs[30] = 8000
    run = simulate(Trace("tail", np.arange(60) * 10**6, prompts, outputs))
    figure = run.plot.kv()
    end_s = run.summary.window.end_s
    assert figure.layout.xaxis.range[1] < end_s / 10
    assert max(figure.data[0].x) > 0.9 * end_s, "the data are all there"
    page = page_of(run).replace("\u00a0", " ")
    assert page.count("Double-click the chart to see the whole run.</figcaption>") == 4


def test_one_window_is_drawn_from_its_start_to_its_end(make_run: Callable[..., Run]) -> None:
    one, recorder = np.ones(1, dtype=np.int64), Recorder(1)
    recorder.interval(0, 5000, 64, 16, 10, 16, 1)
    plot = make_run(Trace("short", one * 0, one, one), recorder).plot
    for figure in (plot.kv(), plot.queue()):
        assert figure.layout.xaxis.range == (0, 5e-9)
        assert {curve.x for curve in figure.data} == {(0, 5e-9)}
        assert {len(curve.y) for curve in figure.data} == {2}


def test_without_time_nothing_is_drawn_over_it() -> None:
    run = instant_run()
    for draw in (run.plot.kv, run.plot.queue, run.plot.steps):
        with pytest.raises(ValueError, match=r"no time passed|no step took time"):
            draw()
    assert "<li>KV memory over time: no time passed.</li>" in page_of(run)


def test_few_preemptions_are_whole(make_run: Callable[..., Run]) -> None:
    one, recorder = np.ones(1, dtype=np.int64), Recorder(1)
    recorder.interval(0, 10**11, 64, 16, 10, 16, 1)
    recorder.preempted(0, 10**11, 50)
    recorder.interval(10**11, 2 * 10**11, 64, 16, 10, 16, 1)
    recorder.admitted(0, 2 * 10**11, 32, resumed=True)
    run = make_run(Trace("one", one * 0, one, one), recorder)
    assert run.plot.preemptions().layout.yaxis.dtick == 1
    told = "1 request. They lost 50 computed tokens; 32 of them were found in the cache again."
    assert told in page_of(run)


def test_weights_and_kv_have_the_colours_of_a_plan() -> None:
    request = PoolRequest(model=load_model("llama-3.1-8b"), hardware=load_hardware("h100-sxm"))
    bars = memory_chart(plan_document(request, plan(request))).figure.data
    terms = {bar.name: bar.marker.color for bar in bars}
    assert (STEP_PARTS["weights"][1], STEP_PARTS["kv"][1]) == (terms["weights"], terms["KV"])
    assert STATE_LABELS["token"][1] == terms["KV"]


def instant_run() -> Run:
    """A run in which nothing takes time."""
    three = np.arange(1, 4)
    trace, setup = Trace("at once", three * 0, three * 10, three), set_up(Scenario())
    engine = run(trace, setup.config, LinearCost(0), max_tokens=three)
    return Run(trace, Scenario(), setup, engine, RunOptions())
