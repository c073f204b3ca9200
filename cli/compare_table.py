"""A comparison as text: metrics down, scenarios across, in blocks of 80 columns."""

from __future__ import annotations

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
_TOLD: Final = {
    "hit_percent": ("hit rate", " points"),
    "ttft_s_p50": ("TTFT p50", "s"),
    "ttft_s_p99": ("TTFT p99", "s"),
    "steady_requests_per_s": ("steady rate", " requests/s"),
    "goodput_requests_per_s": ("goodput", " requests/s"),
}
_BETTER_STATES: Final = {"token": max, "reserved": min, "internal": min, "external": min}


class _Line(NamedTuple):
    """One row of the table; ``best`` picks the best value where one is better than another."""

    label: str
    values: list[Any]
    show: Callable[[Any], str]
    best: Callable[..., Any] | None = None


def comparison_lines(comparison: Comparison) -> list[str]:
    """Lines of the table."""
    rows = comparison.rows
    rivals = [not is_reference(row) for row in rows]
    lines = [(line.label, _cells(line, rivals)) for line in _table(rows)]
    headings = [_heading(row.name) for row in rows]
    width = max(_CELL, *(len(part) + 1 for heading in headings for part in heading))
    width = min(width, WIDTH - _LABEL)
    per_block = (WIDTH - _LABEL) // width
    text = wrapped("trace", f"{comparison.trace}, {number(comparison.num_requests)} requests")
    sizes = {row.metrics["pool_bytes"] for row in rows}
    pools = f"{min(sizes) / 2**30:.2f} GiB" + ("" if len(sizes) == 1 else " and more")
    text += wrapped("KV memory", f"{pools}, * = best of its row")
    for start in range(0, len(rows), per_block):
        chosen = range(start, min(start + per_block, len(rows)))
        text += ["", *_block([headings[i] for i in chosen], width)]
        for label, cells in lines:
            shown = "".join(f"{cells[i]:>{width}}" for i in chosen) if cells else ""
            text.append(f"{label:<{_LABEL}}{shown}".rstrip())
    text += [""]
    for row in rows:
        text += wrapped(_label(row.name), row.verdict["text"])
    for difference in differences_to_lru(rows):
        text += wrapped(_label(difference["name"]), _difference(difference))
    for note in dict.fromkeys(note for row in rows for note in row.notes):
        text += wrapped("note", note)
    return text


def _block(headings: Sequence[list[str]], width: int) -> list[str]:
    """Headings above their columns, of as many lines as the longest has."""
    depth = max(map(len, headings))
    lines = []
    for level in range(depth):
        cells = ((heading[level] if level < len(heading) else "") for heading in headings)
        lines.append(" " * _LABEL + "".join(f"{_cut(cell, width - 1):>{width}}" for cell in cells))
    return [line.rstrip() for line in lines]


def _heading(name: str) -> list[str]:
    """Lines of a name: the allocator, then one varied key (without its table) a line."""
    parts = name.split(", ")
    return [part.partition(".")[2] if "=" in part else part for part in parts]


def _short(name: str) -> str:
    return " ".join(_heading(name))


def _label(name: str) -> str:
    """Name of a scenario before a sentence, with a space behind it."""
    return _cut(_short(name), _LABEL + 3)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _table(rows: Sequence[Row]) -> list[_Line]:
    def metric(name: str) -> list[Any]:
        return [row.metrics[name] for row in rows]

    lines = [_Line("KV while waiting", [], _percent)]
    lines += _states(rows, "while_waiting", _BETTER_STATES)
    lines += [_Line("KV all time", [], _percent), *_states(rows, "all_time", {})]
    lines += [
        _Line("finished", metric("finished"), number),
        _Line("refused", metric("refused"), number, min),
        _Line("mean running", metric("mean_running"), number),
        _Line("peak running", metric("peak_running"), number),
        _Line("steady requests/s", metric("steady_requests_per_s"), number, max),
    ]
    for label, name in (("TTFT", "ttft_s"), ("TPOT", "tpot_s")):
        for statistic in ("p50", "p99"):
            values = metric(f"{name}_{statistic}")
            lines.append(_Line(f"{label} {statistic}", values, seconds, min))
    return [
        *lines,
        _Line("goodput requests/s", metric("goodput_requests_per_s"), number, max),
        _Line("preemptions", metric("preemptions"), number, min),
        _Line("hit rate, %", metric("hit_percent"), number, max),
        _Line("verdict", [row.verdict["kind"] for row in rows], str),
    ]


def _states(rows: Sequence[Row], window: str, better: dict[str, Any]) -> list[_Line]:
    lines = []
    for state, parts in STATES.items():
        shares = [row.kv_bytes_share[window] for row in rows]
        values = [None if share is None else sum(share[part] for part in parts) for share in shares]
        lines.append(_Line(f"  {state}", values, _percent, better.get(state)))
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


def _cells(line: _Line, rivals: Sequence[bool]) -> list[str]:
    """Shown values, the best of the rivals with a star; none where all are shown alike."""
    shown = [line.show(value) for value in line.values]
    pairs = list(zip(line.values, rivals, strict=False))
    known = [value for value, rival in pairs if rival and value is not None]
    if line.best is None or len({line.show(value) for value in known}) < 2:
        return [f"{text} " for text in shown]
    best = line.show(line.best(known))
    starred = zip(shown, rivals, strict=True)
    return [f"{text}*" if rival and text == best else f"{text} " for text, rival in starred]
