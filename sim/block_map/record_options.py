"""What is recorded of a pool: when, how often, how finely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvsim.traces.common.quantities import LARGEST, parse_duration_ps

MOST_SNAPSHOTS: Final = 240
MOST_CELLS: Final = 4096


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """At most so many snapshots and cells, of ``start_ps`` to ``stop_ps`` of the run.

    ``first_width_ps``: time between snapshots at first; ``None``: what spreads them over arrivals.
    """

    start_ps: int = 0
    stop_ps: int = LARGEST
    most_snapshots: int = MOST_SNAPSHOTS
    most_cells: int = MOST_CELLS
    first_width_ps: int | None = None

    @staticmethod
    def of_window(text: str | None) -> RecordOptions:
        """Options of ``--record-window 10s..20s``; ``None`` is the whole run.

        Raises
        ------
        ValueError
            On a text of another form, or a window that ends before it starts.
        """
        if text is None:
            return RecordOptions()
        first, dots, last = text.partition("..")
        try:
            start_ps, stop_ps = parse_duration_ps(first or "0"), parse_duration_ps(last)
        except ValueError:
            dots = ""
        if not dots:
            raise ValueError(f"--record-window is {text!r}; allowed is FROM..TO, such as 10s..20s")
        if start_ps >= stop_ps:
            raise ValueError(f"--record-window {text!r} ends before it starts")
        width_ps = -(-(stop_ps - start_ps) // MOST_SNAPSHOTS)
        return RecordOptions(start_ps, stop_ps, first_width_ps=width_ps)
