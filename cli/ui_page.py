"""The local page itself, a Streamlit script: it runs from top to bottom at each click."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import streamlit as st

from kvsim.cli.ui_places import Places
from kvsim.cli.ui_pool import BETWEEN_S, LivePool
from kvsim.cli.ui_run import Choices, compare_chosen
from kvsim.sim.catalogue import KINDS
from kvsim.sim.compared_scenarios import ALIASES
from kvsim.sim.comparison_lines import table_lines
from kvsim.sim.preset import preset_names
from kvsim.sim.readable import printable
from kvsim.sim.report.comparison_charts import states_figure
from kvsim.sim.run_place import BLOCK_MAP, REPORT
from kvsim.traces.counted import counted

if TYPE_CHECKING:
    from pathlib import Path

    from kvsim.sim.comparison import Comparison
    from kvsim.sim.comparison_runs import Case
    from kvsim.traces.trace import Trace

FEW_REQUESTS = 300
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_HEAD_PX, _MAP_PX = 480, 600
FIRST_ALLOCATORS = ("orca-max", "paged", "prefix")


def form(places: Places) -> Choices | None:
    """Return what was chosen, once run is pressed."""
    names = places.trace_names()
    if not names:
        st.error(literal(f"No traces below {places.root}: start kvsim ui with --root FOLDER."))
        st.stop()
    with st.form("choices", border=False):
        trace = st.selectbox("Trace", names, index=_first(names, "chat"))
        allocators = st.multiselect(
            "Allocators", [*ALIASES, *preset_names()], default=FIRST_ALLOCATORS
        )
        models = [entry.name for entry in KINDS["models"]()]
        model = st.selectbox("Model", models, index=_first(models, "llama-3.1-8b"))
        cards = [entry.name for entry in KINDS["hardware"]()]
        hardware = st.selectbox("Hardware", cards, index=_first(cards, "h100-sxm"))
        limit = st.number_input("First requests of the trace", 1, None, FEW_REQUESTS)
        rate_scale = st.text_input("Arrivals, times as fast", "30")
        kv_memory = st.text_input("Memory for KV (empty: what the card leaves)", "4GiB")
        max_model_len = st.text_input("Longest sequence, tokens (empty: the model's)", "8192")
        block_map = st.toggle("Show the pool while it runs (step by step: slower)", value=True)
        pressed = st.form_submit_button("Run", type="primary", width="stretch")
    if not pressed:
        return None
    return Choices(
        trace=trace,
        allocators=tuple(allocators),
        model=model,
        hardware=hardware,
        limit=int(limit),
        rate_scale=rate_scale,
        kv_memory=kv_memory,
        max_model_len=max_model_len,
        block_map=block_map,
    )


def _first(names: list[str], wanted: str) -> int:
    """Place of the first name that is, or else holds, ``wanted``."""
    holding = [place for place, name in enumerate(names) if wanted in name]
    return names.index(wanted) if wanted in names else next(iter(holding), 0)


def literal(text: str) -> str:
    """Text from outside as Markdown that shows it as it is: nothing is fetched or styled."""
    return _PUNCTUATION.sub(r"\\\g<0>", printable(text))


def run(choices: Choices, places: Places) -> None:
    """Compare with a progress bar and the pool as it fills; keep the result for clicks to come."""
    st.session_state.pop("shown", None)
    bar, pool = st.progress(0.0, "starting"), st.empty()
    folder = places.next_run()

    def told(done: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s - st.session_state.get("told_s", 0.0) > BETWEEN_S:
            st.session_state["told_s"] = now_s
            bar.progress(done / max(total, 1), f"{done:,} of {counted(total, 'request')}")

    def watched(case: Case, trace: Trace) -> LivePool:
        return LivePool(case, trace, pool.image)

    try:
        result = compare_chosen(choices, places, folder, told, watched)
    except (ValueError, OSError) as error:
        st.error(literal(str(error)))
        return
    finally:  # also where another click, or the end of the visit, stops this script
        with suppress(OSError):  # it holds something
            folder.rmdir()
        bar.empty()
        pool.empty()
    st.session_state["shown"] = (
        result,
        folder,
        choices.command(places.trace(choices.trace), folder),
    )


def show(result: Comparison, folder: Path, command: str) -> None:
    """Memory by state, then what users see, then where it lies."""
    waited = any(row.kv_bytes_share["while_waiting"] for row in result.rows)
    window, when = ("while_waiting", "while requests wait") if waited else ("all_time", "all time")
    st.subheader(f"KV memory by state, {when}")
    st.caption("The longer the bar of token, the more of the memory does its work.")
    st.plotly_chart(states_figure(result.rows, window), key="states")
    st.subheader("What users see")
    lines = [line for line in table_lines(result.rows) if not line.section]
    lines.sort(key=lambda line: line.label != "verdict")
    cells = [[f"{text}{' ★' * best}" for text, best in line.cells()] for line in lines]
    columns = dict(zip([row.name for row in result.rows], zip(*cells, strict=True), strict=True))
    labels = [line.label for line in lines]
    st.dataframe({"": labels} | columns, hide_index=True, height="content")
    st.caption(
        "★ is the best of its line. Where a system is overloaded, latencies tell the length of "
        "the trace."
    )
    st.link_button("Open the whole report", f"/runs/{folder.name}/{REPORT}")
    if (folder / BLOCK_MAP).exists():
        st.subheader("The pool, block by block")
        st.iframe(f"/runs/{folder.name}/{BLOCK_MAP}", height=_map_px(len(result.rows)))
    st.caption("The same from a terminal:")
    st.code(command, language="sh", wrap_lines=True)


def _map_px(num_maps: int) -> int:
    """Height of the page of block maps, two side by side, that needs no scrolling of its own."""
    return _HEAD_PX + _MAP_PX * -(-num_maps // 2)


def main() -> None:
    """Draw the page."""
    st.set_page_config("kvsim", layout="wide")
    places = Places.of_environment()
    with st.sidebar:
        st.title("kvsim")
        st.caption("One trace, one clock, another allocator.")
        choices = form(places)
    if choices is not None:
        run(choices, places)
    if "shown" in st.session_state:
        show(*st.session_state["shown"])
    elif choices is None:
        st.info(
            "Choose a trace and allocators in the side bar, then press Run. On a phone the arrows "
            "at the top left open and close it."
        )


if __name__ == "__main__":  # Streamlit runs it so; processes that simulate do not
    main()
