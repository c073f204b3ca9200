"""The local page itself, a Streamlit script: it runs from top to bottom at each click."""

from __future__ import annotations

import time
from typing import Final

import streamlit as st

from kvsim.cli.ui.folders import Places
from kvsim.cli.ui.form import form, in_words_of_the_form
from kvsim.cli.ui.pool import BETWEEN_S, PoolView
from kvsim.cli.ui.result import Shown, literal, show
from kvsim.cli.ui.run import Choices, compare_chosen, why_too_large
from kvsim.traces.common.text import counted

_STYLE: Final = "<style>.stMainBlockContainer { padding-top: 2.5rem; }</style>"
STOPPED: Final = "Stopped: nothing of that comparison was kept."


def run(choices: Choices, places: Places) -> None:
    """Compare with a progress bar and the pools as they fill; keep the result for clicks to come.

    A click on Stop, as one on Run, ends this script where it next draws.
    """
    state = st.session_state
    state.pop("shown", None)
    head, pools = st.container(horizontal=True, vertical_alignment="center"), st.empty()
    bar, stop = head.empty(), head.empty()
    bar.progress(0.0, "reading the trace")
    stop.button("Stop", on_click=_open_form, args=(STOPPED,))
    told_s = 0.0

    def told(done: int, total: int) -> None:
        nonlocal told_s
        now_s = time.monotonic()
        if now_s - told_s > BETWEEN_S:
            told_s = now_s
            bar.progress(done / max(total, 1), f"{done:,} of {counted(total, 'request')} done")

    try:
        result, folder = compare_chosen(choices, places, told, PoolView(pools))
        too_large = why_too_large(choices)
    except (ValueError, OSError) as error:
        _open_form(in_words_of_the_form(str(error)))
        st.rerun()
    for place in (bar, stop, pools):
        place.empty()
    command = choices.command(places.trace(choices.trace), folder)
    state["shown"] = Shown(result, folder, command, too_large)


def _open_form(note: str) -> None:
    """Show the form again, below a sentence."""
    st.session_state["note"] = note


def _close_form() -> None:
    """Make room for what comes; under another name, the browser closes what a hand has opened."""
    state = st.session_state
    state["runs"] = state.get("runs", 0) + 1
    state.pop("note", None)


def main() -> None:
    """Draw the page: what is chosen on top, in a box that closes on Run, then what came of it."""
    st.set_page_config("kvsim", layout="wide")
    state, places = st.session_state, Places.of_environment()
    st.html(_STYLE)
    st.markdown("### kvsim\n\nOne trace, one clock, several allocators: where does KV memory go?")
    traces = places.trace_names()
    if not traces:
        st.error(literal(f"No traces below {places.root}: start kvsim ui with --root FOLDER."))
        st.stop()
    runs, note = state.get("runs", 0), state.get("note")
    if note:
        (st.info if note == STOPPED else st.error)(literal(note))
    opened = bool(note) or not runs
    with st.expander("What to compare", expanded=opened, key=f"choices-{runs}-{opened}"):
        choices = form(traces, _close_form)
    about = st.empty()
    if choices is not None:
        state["about"] = choices.in_words()
    if not opened:
        about.caption(literal(state["about"]))
    if choices is not None:
        run(choices, places)
    if "shown" in state:
        show(state["shown"])


if __name__ == "__main__":  # Streamlit runs it so; processes that simulate do not
    main()
