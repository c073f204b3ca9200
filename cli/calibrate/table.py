"""What ``kvsim calibrate`` prints: the plan of a dry run, and the terms of a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.cli.text.fit_table import condition_lines, error_lines
from kvsim.cli.text.table import table, wrapped
from kvsim.traces.common.text import number, seconds

if TYPE_CHECKING:
    from kvsim.calibrate.calibration import Calibration
    from kvsim.calibrate.fit.measured_terms import Terms
    from kvsim.calibrate.measure.estimate import Rates
    from kvsim.kernels.shape import DecoderShape
    from kvsim.sim.cost.profile import Profile

_TABLE: Final = "the two pieces do not hold here: a table between the measured points is used"


def plan_lines(calibration: Calibration, rates: Rates) -> list[str]:
    """Points and expected time by block."""
    setup = calibration.setup
    rows = [("block", "points", "of which held out", "time")]
    for block in dict.fromkeys(point.block for point in calibration.points):
        points = [point for point in calibration.points if point.block == block]
        held = sum(point.role == "hold-out" for point in points)
        time_s = sum(calibration.seconds_of(point, rates) for point in points)
        rows.append((block, f"{len(points)}", f"{held}" if held else "-", seconds(time_s)))
    total_s = seconds(calibration.seconds(rates))
    rows.append(("all, with anchors between", f"{len(calibration.points)}", "", total_s))
    return [
        *wrapped("device", f"{setup['device']['product']} ({calibration.device.type})"),
        *wrapped(
            "model", f"{calibration.model.name}, {calibration.dtype}, one rank of {setup['tp']}"
        ),
        *wrapped("timer", f"{setup['timer']}; {setup['repeats']} repeats"),
        "",
        *table(rows, first_width=28),
    ]


def profile_lines(profile: Profile, terms: Terms, shape: DecoderShape) -> list[str]:
    """Terms with their reading, copies, layouts, and errors on held-out points."""
    from kvsim.calibrate.calibration import ELEMENT_BYTES
    from kvsim.calibrate.steadiness import spread_of_repeats, steadiness

    lines = _term_lines(profile, terms, shape)
    lines += wrapped("steadiness", steadiness(profile.measurement))
    lines += wrapped("spread of repeats", spread_of_repeats(profile.measurement))
    conditions = {block: fit.condition for block, fit in terms.by_block().items()}
    lines += wrapped(
        "condition numbers",
        ", ".join(f"{block} {value:.3g}" for block, value in conditions.items()),
    )
    token_bytes = shape.kv_bytes_per_token(ELEMENT_BYTES[profile.weight_dtype])
    lines += ["", *_copy_table(profile, token_bytes), "", *_attention_table(profile, token_bytes)]
    if profile.kernels.get("flex", "").startswith("not measured"):
        lines += wrapped("FlexAttention", profile.kernels["flex"])
    if profile.attention_factor:
        factors = ", ".join(f"{name} {x:.3f}" for name, x in profile.attention_factor.items())
        lines += ["", *wrapped("decode attention by", f"memory layout: {factors}")]
    return [*lines, "", *error_lines(profile), *condition_lines(conditions)]


def _term_lines(profile: Profile, terms: Terms, shape: DecoderShape) -> list[str]:
    """Values and errors of the terms, with what they say of the card."""
    from kvsim.calibrate.fit.term_table import term_rows
    from kvsim.sim.hardware import load_hardware
    from kvsim.sim.hardware.card_file import card_of

    hardware = (
        card_of(profile.hardware, profile.card) if profile.card else load_hardware(profile.hardware)
    )
    lines = [f"{'term':16}{'a layer':>10}{'+- error':>10}  {'unit':12}reading"]
    for row in term_rows(profile, terms, hardware, shape):
        value = number(float(row.value))
        error = number(float(row.standard_error)) if row.standard_error else "-"
        lines.append(
            f"{row.block:8}{row.name:8}{value:>10}{error:>10}  {row.unit:12}{row.reading}".rstrip()
        )
    lines.append("(head and host: a step)")
    for block, term in (("layer", profile.gemm), ("head", profile.head)):
        if term.knots:
            lines += wrapped(block, _TABLE)
    return lines


def _copy_table(profile: Profile, token_bytes: int) -> list[str]:
    from kvsim.calibrate.fit.term_table import copy_rates

    block_bytes = profile.measurement["setup"]["block_size"] * token_bytes
    rows = [("copies of KV blocks", "latency", "rate")]
    for rate in copy_rates(profile, block_bytes):
        reached = f"{rate.bytes_per_s / 1e9:.2f} GB/s"
        rows.append((rate.name, seconds(rate.latency_us / 1e6), reached))
    return table(rows, first_width=28)


def _attention_table(profile: Profile, token_bytes: int) -> list[str]:
    from kvsim.calibrate.fit.term_table import attention_rates

    rows = [("decode attention", "time", "KV read", "of copy rate")]
    for rate in attention_rates(profile, token_bytes):
        reached, share = f"{rate.bytes_per_s / 1e9:.2f} GB/s", f"{100 * rate.copy_share:.0f} %"
        rows.append((rate.name, seconds(rate.us / 1e6), reached, share))
    return table(rows, first_width=28)
