"""``kvsim calibrate cache-lab``: what a KV cache buys and costs, measured here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvsim.cli.calibrate.measure import add_device_options
from kvsim.cli.options.completion import FILES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from kvsim.calibrate.measure.cache_lab import CacheRow, StepRow
    from kvsim.calibrate.validate.conversation import Turn
    from kvsim.kernels.shape import DecoderShape
    from kvsim.sim.models import ModelSpec

_LAYERS_ON_CPU: Final = 6
_BLOCK_SIZE: Final = 16


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "cache-lab",
        help="measure generation with and without a KV cache",
        description="Measure the next token with and without a KV cache, and the decode step "
        "by context at batch 1 and 16, on a decoder with random weights. Print two "
        "tables and write one HTML page.",
    )
    add_device_options(parser)
    group = parser.add_argument_group("lab")
    group.add_argument(
        "--layers", type=int, metavar="N", help="number of layers (default: all; CPU: 6)"
    )
    group.add_argument(
        "--max-context", type=int, default=8192, metavar="N", help="longest text (default 8192)"
    )
    group.add_argument(
        "--limit",
        type=float,
        default=30.0,
        metavar="S",
        help="time limit of one token without a cache, in s (default 30)",
    )
    profile = group.add_argument(
        "--profile", metavar="FILE", help="profile for the drawing of a 50-turn conversation"
    )
    profile.complete = FILES  # type: ignore[attr-defined]  # read by shtab
    group.add_argument(
        "--out", default="cache-lab.html", metavar="FILE", help="page (default cache-lab.html)"
    )
    group.add_argument("--dry-run", action="store_true", help="estimate how long it takes")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, draw."""
    from kvsim.calibrate.cache_lab_page import lab_page
    from kvsim.calibrate.calibration import DEFAULT_MODELS, ELEMENT_BYTES
    from kvsim.calibrate.measure.cache_lab import (
        DecoderLab,
        blocks_needed,
        cache_table,
        expected_s,
        step_table,
    )
    from kvsim.calibrate.measure.device import default_dtype, facts_of, find_device
    from kvsim.calibrate.measure.heap import keep_heap
    from kvsim.calibrate.measure.timing import timer_of
    from kvsim.calibrate.validate.decoder_shape import make_decoder
    from kvsim.cli.text.table import wrapped
    from kvsim.sim.models import load_model
    from kvsim.traces.common.files import check_file, write_file
    from kvsim.traces.common.text import seconds

    out = Path(arguments.out)
    check_file(out)
    device = find_device(arguments.device)
    keep_heap()
    model = load_model(arguments.model or DEFAULT_MODELS[device.type])
    shape = _shape(model, arguments.layers, device.type)
    contexts = _contexts(arguments.max_context)
    turns = _turns(arguments.profile, arguments.model)
    dtype = arguments.dtype or default_dtype(device)
    decoder = make_decoder(
        shape,
        device=device,
        dtype=dtype,
        num_blocks=blocks_needed(contexts, _BLOCK_SIZE),
        block_size=_BLOCK_SIZE,
    )
    lab, timer = DecoderLab(decoder), timer_of(device)
    title = (
        f"{model.name}, {shape.num_layers} of {model.num_layers} layers, {dtype}, on "
        f"{facts_of(device).product}"
    )
    print("\n".join(wrapped("decoder", title)))
    if arguments.dry_run:
        time_s = expected_s(lab, timer, contexts, arguments.limit)
        print("\n".join(wrapped("lab", f"texts up to {contexts[-1]:,} tokens: {seconds(time_s)}")))
        return 0
    cache = cache_table(lab, timer, contexts, arguments.limit)
    steps = step_table(lab, timer, contexts)
    print("\n".join(lab_lines(cache, steps, shape, ELEMENT_BYTES[dtype])))
    if turns:
        print("\n".join(_turn_lines(turns)))
    write_file(lab_page(title, cache, steps, turns), out)
    print(f"\npage: {out}")
    return 0


def lab_lines(
    cache: Sequence[CacheRow], steps: Sequence[StepRow], shape: DecoderShape, element_bytes: int
) -> list[str]:
    """Two tables: next token with and without a cache, decode step against context."""
    from kvsim.calibrate.measure.cache_lab import growth_by_bytes
    from kvsim.cli.text.table import table
    from kvsim.traces.common.text import seconds

    rows = [("next token at", "with cache", "without", "times as long")]
    for row in cache:
        ratio = "-" if row.naive_us is None else f"{row.naive_us / row.cached_us:.1f}"
        naive = "over the limit" if row.naive_us is None else seconds(row.naive_us / 1e6)
        rows.append((f"{row.context:,} tokens", seconds(row.cached_us / 1e6), naive, ratio))
    lines = ["", *table(rows), ""]
    rows = [("decode step at", "step", "growth", "growth by bytes")]
    for batch in dict.fromkeys(row.batch for row in steps):
        chosen = [row for row in steps if row.batch == batch]
        first = chosen[0]
        for step in chosen:
            by_bytes = growth_by_bytes(shape, element_bytes, batch, step.context, first.context)
            rows.append(
                (
                    f"batch {batch}, {step.context:,}",
                    seconds(step.step_us / 1e6),
                    f"{step.step_us / first.step_us:.2f}",
                    f"{by_bytes:.2f}",
                )
            )
    return lines + table(rows)


def _shape(model: ModelSpec, layers: int | None, device_type: str) -> DecoderShape:
    """So many layers of a model; by default all, or what a CPU can do in minutes."""
    from dataclasses import replace

    from kvsim.calibrate.validate.decoder_shape import decoder_shape

    shape = decoder_shape(model)
    most = shape.num_layers
    if layers is None:
        layers = min(most, _LAYERS_ON_CPU) if device_type == "cpu" else most
    if not 1 <= layers <= most:
        raise ValueError(f"--layers is {layers}; {model.name} has {most}")
    return replace(shape, num_layers=layers)


def _contexts(longest: int) -> list[int]:
    from kvsim.calibrate.measure.cache_lab import CONTEXTS

    contexts = [context for context in CONTEXTS if context <= longest]
    if len(contexts) < 2:
        raise ValueError(f"--max-context is {longest}; it must be at least 256")
    return contexts


def _turns(profile: str | None, model: str | None) -> list[Turn]:
    """Turns of a conversation, all layers of the profile's model; none without a profile."""
    if profile is None:
        return []
    from kvsim.calibrate.profile_use import cost_of_profile
    from kvsim.calibrate.validate.conversation import conversation

    return conversation(cost_of_profile(Path(profile), model))


def _turn_lines(turns: Sequence[Turn]) -> list[str]:
    from kvsim.cli.text.table import table
    from kvsim.traces.common.text import seconds

    shown = [turn for turn in turns if turn.number in (1, 10, 20, 30, 40, 50)]
    rows = [("turn, all layers", "context", "TPOT")]
    rows += [(str(turn.number), f"{turn.context:,}", seconds(turn.tpot_s)) for turn in shown]
    return ["", *table(rows)]
