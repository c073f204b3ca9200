"""Rows of a comparison grouped by trace: tables and charts have a heading for each trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.sim.comparison.row import Row


class Group(NamedTuple):
    """Rows of one trace. ``heading`` is empty where the comparison has one trace only."""

    heading: str
    rows: list[Row]

    def name_of(self, row: Row) -> str:
        """Name of a row below the heading, which already names the trace."""
        before, found, after = row.name.rpartition(f", {row.trace}")
        return before + after if self.heading and found else row.name


def by_trace(rows: Sequence[Row]) -> list[Group]:
    """Return the rows of each trace together, in the order of the first row of each trace."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.trace, []).append(row)
    return [Group(trace if len(groups) > 1 else "", some) for trace, some in groups.items()]


class Slot(NamedTuple):
    """A place along the axis of a bar chart: a row, or the heading of the rows below it."""

    label: str
    row: Row | None


def slots_of(rows: Sequence[Row]) -> list[Slot]:
    """Return the rows in groups, with a slot for each heading."""
    slots = []
    for group in by_trace(rows):
        slots += [Slot(group.heading, None)] if group.heading else []
        slots += [Slot(group.name_of(row), row) for row in group.rows]
    return slots
