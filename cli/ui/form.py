"""The form of the local page: what is compared, and how its fields are called in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import streamlit as st

from kvsim.cli.text.catalogue import KINDS
from kvsim.cli.ui.run import Choices
from kvsim.sim.comparison.scenarios import ALIASES
from kvsim.sim.scenario.preset import load_preset, preset_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from streamlit.delta_generator import DeltaGenerator

FEW_REQUESTS: Final = 300
FIRST_ALLOCATORS: Final = ("orca-max", "paged", "prefix")
FIELDS: Final = {
    "--limit": "Requests",
    " tp ": " Cards ",
    "engine.tensor_parallel_size": "Cards",
    "--kv-memory": "Memory for KV",
    "engine.kv_memory": "Memory for KV",
    "engine.max_model_len": "Longest sequence",
    "--rate-scale": "The rate of arrivals",
    "rate scale": "Arrivals",
    "--allocators": "Allocators",
    "known formats, also for --format": "known formats",
}
"""What options and keys are called here, where there are no options."""


def form(traces: list[str], on_run: Callable[[], None]) -> Choices | None:
    """Draw it; returns what was chosen once Run is pressed, after ``on_run`` was called."""
    with st.form("choices", border=False):
        trace_box, model_box, card_box, count_box = st.columns([3, 3, 3, 1])
        trace = trace_box.selectbox("Trace", traces, index=_first(traces, "chat"))
        model = _entry(model_box, "Model", "models", "llama-3.1-8b")
        hardware = _entry(card_box, "Hardware", "hardware", "h100-sxm")
        num_cards = count_box.number_input(
            "Cards", 1, None, 1, help="The model is split over so many (tensor parallel)."
        )
        allocators = _allocators()
        limit_box, rate_box, memory_box, length_box = st.columns(4)
        limit = limit_box.number_input(
            "Requests",
            1,
            None,
            FEW_REQUESTS,
            help="The first so many of the trace; all, where it has fewer.",
        )
        rate_scale = rate_box.text_input(
            "Arrivals, times as fast",
            "30",
            help="30: requests come 30 times as fast as in the trace, so that memory runs short. "
            "10,30 compares both.",
        )
        kv_memory = memory_box.text_input(
            "Memory for KV",
            "4GiB",
            help="On each card. 4GiB is little, so that allocators differ soon. Empty: what the "
            "model's weights leave.",
        )
        max_model_len = length_box.text_input(
            "Longest sequence, tokens",
            "8192",
            help="Of prompt and output together; orca-max reserves as much for each request. "
            "Empty: the model's own.",
        )
        block_map = st.toggle(
            "Show the pools while they fill",
            value=True,
            help="Takes longer: every step is simulated by itself, and what lies where is kept.",
        )
        pressed = st.form_submit_button("Run", type="primary", width="stretch", on_click=on_run)
    if not pressed:
        return None
    return Choices(
        trace=trace,
        allocators=tuple(allocators),
        model=model,
        hardware=hardware,
        tp=int(num_cards),
        limit=int(limit),
        rate_scale=rate_scale,
        kv_memory=kv_memory,
        max_model_len=max_model_len,
        block_map=block_map,
    )


def _allocators() -> list[str]:
    """Choice of what is compared, with a line on each."""
    about = {name: alias.what for name, alias in ALIASES.items()}
    about |= {name: load_preset(name).engine for name in preset_names()}
    chosen: list[str] = st.multiselect(
        "Allocators, side by side",
        list(about),
        default=FIRST_ALLOCATORS,
        help="\n".join(f"- **{name}**: {what}" for name, what in about.items()),
    )
    return chosen


def in_words_of_the_form(text: str) -> str:
    """Sentence of the command line, with the labels of fields for options and keys."""
    for name, label in FIELDS.items():
        text = text.replace(name, label)
    return text


def _entry(box: DeltaGenerator, label: str, kind: str, wanted: str) -> str:
    """Choice among what is bundled, with a few words on each."""
    about = {entry.name: entry.what for entry in KINDS[kind]()}
    names = list(about)
    chosen: str = box.selectbox(
        label,
        names,
        index=_first(names, wanted),
        format_func=lambda name: f"{name}: {about[name]}",
    )
    return chosen


def _first(names: list[str], wanted: str) -> int:
    """Place of the first name that is, or else holds, ``wanted``."""
    holding = [place for place, name in enumerate(names) if wanted in name]
    return names.index(wanted) if wanted in names else next(iter(holding), 0)
