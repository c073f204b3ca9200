"""The metrics of a comparison, one line each, as text that a terminal and a page show alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kvsim.sim.comparison.reference import is_reference
from kvsim.sim.documents.comparison import Metrics
from kvsim.sim.metrics.shares import STATES, grouped
from kvsim.traces.common.part import keys_of
from kvsim.traces.common.text import amount, number, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kvsim.sim.comparison.comparison import Comparison
    from kvsim.sim.comparison.row import Row

_BETTER_STATES: Final = {"token": max, "reserved": min, "internal": min, "external": min}

_BEST: Final = {"more": max, "less": min}
_OF_OVERTAKEN: Final = ("longest wait", "starved")
"""Labels of lines that say something only where somebody was overtaken."""
_RETENTION: Final = "retention"
_MOST_NAMED: Final = 6
"""Rows that a sentence names."""


class Line(NamedTuple):
    """One metric of all rows; ``best`` picks the best value where one is better than another.

    ``groups``: the best is sought among rows of one group; ``None`` stands for a row that is there
    to be compared with only.
    """

    section: str
    label: str
    values: list[Any]
    show: Callable[[Any], str]
    best: Callable[..., Any] | None = None
    groups: Sequence[str | None] = ()

    def is_known(self) -> bool:
        """Whether some row has a value."""
        return any(value is not None for value in self.values)

    def cells(self) -> list[tuple[str, bool]]:
        """Shown values, and whether each is the best; none is where all are shown alike."""
        shown = [self.show(value) for value in self.values]
        best_of = {group: self._best_of(group) for group in self.groups if group is not None}
        pairs = zip(shown, self.groups, strict=True)
        return [(text, group is not None and text == best_of[group]) for text, group in pairs]

    def _best_of(self, group: str) -> str | None:
        """What the best value of a group shows; ``None`` where all are shown alike."""
        pairs = zip(self.values, self.groups, strict=True)
        known = [value for value, other in pairs if other == group and value is not None]
        if self.best is None or len({self.show(value) for value in known}) < 2:
            return None
        return self.show(self.best(known))


def table_lines(rows: Sequence[Row]) -> list[Line]:
    """All metrics that some row has, in order."""
    waiting = grouped(row.kv_bytes_share.while_waiting for row in rows)
    all_time = grouped(row.kv_bytes_share.all_time for row in rows)
    groups = [None if is_reference(row) else f"{row.trace} x {row.rate_scale}" for row in rows]
    unseen = () if any(row.metrics.most_overtaken for row in rows) else _OF_OVERTAKEN
    lines = [
        *_states("KV while waiting", waiting, _BETTER_STATES),
        *_states("KV all time", all_time, {}),
        *sorted(_metrics(rows), key=lambda line: not line.section),
        Line("", "verdict", [row.verdict.kind for row in rows], str),
    ]
    return [
        line._replace(groups=groups)
        for line in lines
        if line.is_known() and line.label not in unseen
    ]


def _metrics(rows: Sequence[Row]) -> Iterator[Line]:
    """Metrics that have a label; what chosen retention kept has a section of its own."""
    for item in keys_of(Metrics):
        told = item.metadata
        if told["label"]:
            section = _RETENTION if item.name.startswith(_RETENTION) else ""
            values = [getattr(row.metrics, item.name) for row in rows]
            show = _SHARES.get(item.name) or _SHOW.get(told["unit"], number)
            yield Line(section, told["label"], values, show, _BEST.get(told["better"]))


def _states(
    section: str, shares: Sequence[dict[str, float] | None], better: Mapping[str, Any]
) -> list[Line]:
    return [
        Line(
            section,
            state,
            [None if share is None else share[state] for share in shares],
            _percent,
            better.get(state),
        )
        for state in STATES
    ]


def pool_text(rows: Sequence[Row]) -> str:
    """Bytes for KV: one size, or from the least to the most."""
    sizes = [f"{size / 2**30:.2f} GiB" for size in sorted({r.metrics.pool_bytes for r in rows})]
    return sizes[0] if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]}"


def served_text(rows: Sequence[Row]) -> str:
    """What is served on which card, each pair once."""
    tables: list[Any] = [row.scenario for row in rows]
    pairs = (f"{table['model']['name']} on {table['hardware']['name']}" for table in tables)
    return ", ".join(dict.fromkeys(pairs))


def arrivals_text(rows: Sequence[Row]) -> str:
    """Rate of arrivals: one, or from the least to the most."""
    rates = sorted({rate for row in rows if (rate := row.metrics.arrivals_per_s) is not None})
    shown = list(dict.fromkeys(number(rates[place]) for place in (0, -1) if rates))
    return f"{' to '.join(shown)} requests a second" if shown else "all at once"


def notes_of(comparison: Comparison) -> list[str]:
    """Sentences on all rows, then those of single rows, each once, after the rows it concerns."""
    own = [(row.name, note) for row in comparison.rows for note in row.notes]
    own = [(name, note) for name, note in own if note not in comparison.notes]
    return [*comparison.notes, *said_of(own, len(comparison.rows))]


def short_name(name: str) -> str:
    """Name of a varied run without the tables of its keys."""
    parts = (part.partition(".")[2] if "=" in part else part for part in name.split(", "))
    return ", ".join(parts)


def said_of(pairs: Sequence[tuple[str, str]], num_rows: int) -> list[str]:
    """Sentences of ``(row, sentence)``, each once: after the names of its rows, if not all have it.

    Of more than a few names the first are given, and how many follow.
    """
    rows_of: dict[str, list[str]] = {}
    for name, sentence in pairs:
        rows_of.setdefault(sentence, []).append(name)
    return [
        sentence if len(names) == num_rows else f"{listed(names)}: {sentence}"
        for sentence, names in rows_of.items()
    ]


def listed(names: Sequence[str]) -> str:
    """Names, or what begins with one, beside each other; those of varied runs hold commas.

    Of more than a few the first are given, and how many follow.
    """
    shown = names[:_MOST_NAMED]
    more = [f"{len(names) - len(shown)} more"] if len(names) > len(shown) else []
    return ("; " if any("," in name for name in shown) else ", ").join([*shown, *more])


def _amount(num_bytes: float | None) -> str:
    return "-" if num_bytes is None else amount(num_bytes)


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f} %"


_SHOW: Final[dict[str, Callable[[Any], str]]] = {"s": seconds, "B": _amount}
"""By unit, where the number alone would not do."""
_SHARES: Final = {"retention_attention_mass_kept": _percent}
"""Metrics without unit that are no counts."""
