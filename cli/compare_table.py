"""A comparison as text: metrics down, scenarios across, in blocks of 80 columns."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kvsim.cli.table import WIDTH, number, seconds, wrapped
from kvsim.sim.comparison_reference import differences_to_lru, is_reference
from kvsim.sim.memory_shares import STATES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kvsim.sim.comparison import Comparison
    from kvsim.sim.comparison_row import Row

_LABEL: Final = 20
_CELL: Final = 12
_WIDEST_HEADING: Final = 18
_TOLD: Final = {
    "hit_percent": ("hit rate", " points"),
    "ttft_s_p50": ("TTFT p50", "s"),
    "ttft_s_p99": ("TTFT p99", "s"),
    "sustained_requests_per_s": ("sustained rate", " requests/s"),
    "goodput_requests_per_s": ("goodput", " requests/s"),
}
_BETTER_STATES: Final = {"token": max, "reserved": min, "internal": min, "external": min}


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


def comparison_lines(comparison: Comparison) -> list[str]:
    """Lines of the table."""
    rows, lines = comparison.rows, table_lines(comparison.rows)
    headings = [_heading(row.name) for row in rows]
    width = max(_CELL, *(len(part) + 1 for heading in headings for part in heading))
    width = min(width, WIDTH - _LABEL)
    text = head_lines(comparison)
    for chosen in _blocks(len(rows), (WIDTH - _LABEL) // width):
        text += ["", *_block([headings[i] for i in chosen], width)]
        section = ""
        for line in lines:
            if line.section != section:
                section = line.section
                text.append(section)
            cells = line.cells()
            shown = "".join(f"{cells[i][0] + ' *'[cells[i][1]]:>{width}}" for i in chosen)
            label = f"  {line.label}" if section else line.label
            text.append(f"{label:<{_LABEL}}{shown}".rstrip())
    text += [""]
    for row in rows:
        text += wrapped(_short(row.name), row.verdict["text"])
    for difference in differences_to_lru(rows):
        text += wrapped(_short(difference["name"]), _difference(difference))
    for note in notes_of(comparison):
        text += wrapped("note", note)
    return text


def head_lines(comparison: Comparison) -> list[str]:
    """What was compared: traces, memory."""
    text = []
    for trace in comparison.traces:
        text += wrapped("trace", f"{trace.name}, {number(trace.requests)} requests")
    return text + wrapped("KV memory", f"{pool_text(comparison.rows)}, * = best of its row")


def pool_text(rows: Sequence[Row]) -> str:
    """Bytes for KV: one size, or from the least to the most."""
    sizes = [f"{size / 2**30:.2f} GiB" for size in sorted({r.metrics["pool_bytes"] for r in rows})]
    return sizes[0] if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]}"


def notes_of(comparison: Comparison) -> list[str]:
    """Sentences on all rows, then those of single rows, each once."""
    own = (note for row in comparison.rows for note in row.notes)
    return list(dict.fromkeys((*comparison.notes, *own)))


def _blocks(num_columns: int, most: int) -> list[range]:
    """Columns side by side, as evenly over the blocks as can be."""
    num_blocks = -(-num_columns // most)
    edges = [num_columns * place // num_blocks for place in range(num_blocks + 1)]
    return [range(start, stop) for start, stop in pairwise(edges)]


def _block(headings: Sequence[list[str]], width: int) -> list[str]:
    """Headings above their columns, of as many lines as the longest has."""
    depth = max(map(len, headings))
    lines = []
    for level in range(depth):
        cells = ((heading[level] if level < len(heading) else "") for heading in headings)
        lines.append(" " * _LABEL + "".join(f"{_cut(cell, width - 1):>{width}}" for cell in cells))
    return [line.rstrip() for line in lines]


def _heading(name: str) -> list[str]:
    """Lines of a name: the allocator, then one varied key (without its table) a line, or two."""
    lines = []
    for part in name.split(", "):
        text = part.partition(".")[2] if "=" in part else part
        key, equals, value = text.partition("=")
        lines += [key + equals, value] if equals and len(text) > _WIDEST_HEADING else [text]
    return lines


def _short(name: str) -> str:
    return " ".join(_heading(name)).replace("= ", "=")


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def table_lines(rows: Sequence[Row]) -> list[Line]:
    """All metrics, in order."""

    def metric(
        label: str, name: str, show: Callable[[Any], str] = number, best: Any = None
    ) -> Line:
        return Line("", label, [row.metrics[name] for row in rows], show, best)

    latencies = [
        metric(f"{label} {statistic}", f"{name}_{statistic}", seconds, min)
        for label, name in (("TTFT", "ttft_s"), ("TPOT", "tpot_s"))
        for statistic in ("p50", "p99")
    ]
    overtaken = []
    if any(row.metrics["most_overtaken"] for row in rows):
        overtaken = [
            metric("longest wait", "longest_wait_s", seconds, min),
            metric("starved", "starved", best=min),
        ]
    users = []
    if any(row.metrics["heaviest_user_ttft_s_mean"] is not None for row in rows):
        users = [
            metric("heaviest user's TTFT", "heaviest_user_ttft_s_mean", seconds, min),
            metric("other users' TTFT", "other_users_ttft_s_mean", seconds, min),
            metric("other users' TTFT p99", "other_users_ttft_s_p99", seconds, min),
        ]
    groups = [None if is_reference(row) else row.trace for row in rows]
    lines = [
        *_states(rows, "KV while waiting", "while_waiting", _BETTER_STATES),
        *_states(rows, "KV all time", "all_time", {}),
        metric("finished", "finished"),
        metric("refused", "refused", best=min),
        metric("mean running", "mean_running"),
        metric("peak running", "peak_running"),
        metric("sustained req/s", "sustained_requests_per_s", best=max),
        *latencies,
        *overtaken,
        *users,
        metric("goodput requests/s", "goodput_requests_per_s", best=max),
        metric("preemptions", "preemptions", best=min),
        metric("hit rate, %", "hit_percent", best=max),
        Line("", "verdict", [row.verdict["kind"] for row in rows], str),
    ]
    return [line._replace(groups=groups) for line in lines]


def _states(rows: Sequence[Row], section: str, window: str, better: dict[str, Any]) -> list[Line]:
    lines = []
    for state, parts in STATES.items():
        shares = [row.kv_bytes_share[window] for row in rows]
        values = [None if share is None else sum(share[part] for part in parts) for share in shares]
        lines.append(Line(section, state, values, _percent, better.get(state)))
    return lines


def _difference(difference: dict[str, Any]) -> str:
    """Signed differences to LRU in words; those that are undefined are left out."""
    told = []
    for name, (label, unit) in _TOLD.items():
        value = difference["metrics"][name]
        if value is not None:
            amount = seconds(abs(value)) if unit == "s" else number(abs(value)) + unit
            told.append(f"{label} {'-' if value < 0 else '+'}{amount}")
    against = f"against {_short(difference['against'])}, which does not read the future"
    return f"{', '.join(told)} {against}; a difference, no bound"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f} %"
