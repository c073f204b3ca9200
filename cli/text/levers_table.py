"""``kvsim plan --levers`` as text, 80 columns wide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.cli.text.table import wrapped
from kvsim.sim.pool.attention_levers import LENGTHS, READ_AT
from kvsim.traces.common.readable import number, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.pool.attention_levers import LeverRow
    from kvsim.sim.pool.terms import PoolRequest

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
            lines += ["", section]
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
