"""What a preset of ``kvsim compare`` is, and how its results stand beside published ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvsim.sim.comparison.row import Row
    from kvsim.sim.scenario.scenario import Scenario
    from kvsim.traces.trace.trace import Trace

Change: TypeAlias = "Callable[[Scenario], Scenario]"
"""What the options of the command line do to a scenario."""
Figure: TypeAlias = float | tuple[float, float] | None
"""A published number, or the range of one; ``None`` where the source does not tell."""


@dataclass(frozen=True, slots=True)
class PublishedLine:
    """One line of a table: what a source says and what came out here, one entry a column."""

    name: str
    paper: tuple[Figure, ...]
    kvsim: tuple[float, ...]

    def differences(self) -> tuple[float | None, ...]:
        """Ours less the paper's, where that is one number."""
        return tuple(
            ours - theirs if isinstance(theirs, float) else None
            for theirs, ours in zip(self.paper, self.kvsim, strict=True)
        )


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """Lines of one kind of number."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[PublishedLine, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """Results beside a source; ``basis`` says what was fitted or assumed to get there."""

    source: str
    basis: str
    tables: tuple[PublishedTable, ...]

    def to_json(self) -> dict[str, object]:
        """Plain dict, differences included."""
        tables = [
            {
                "title": table.title,
                "columns": list(table.columns),
                "lines": [
                    {**asdict(line), "difference": line.differences()} for line in table.lines
                ],
            }
            for table in self.tables
        ]
        return {"source": self.source, "basis": self.basis, "tables": tables}


class ComparisonPreset(Protocol):
    """Scenarios to compare, and perhaps the traces: a file of this folder each.

    ``summary`` is one line for ``kvsim list``, ``verified`` says what its numbers were held
    against.
    """

    name: str
    summary: str
    verified: str

    def traces(self, seed: int) -> tuple[Trace, ...]:
        """Traces made up from a seed, named apart; none where the user brings one."""
        ...

    def scenarios(self, change: Change) -> dict[str, Scenario]:
        """Scenarios by name, each changed by the user's options last; ValueError names one."""
        ...

    def published(self, rows: Sequence[Row]) -> Published | None:
        """Rows (scenarios in order, of each the traces in order) beside what a source says."""
        ...
