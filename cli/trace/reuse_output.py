"""What ``kvsim trace reuse`` found: an 80-column table, JSON, and the curve as one page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kvsim.cli.text.colour import as_label
from kvsim.cli.text.table import table, wrapped
from kvsim.sim.documents.reuse import NeededBlocks, Point, ReuseDocument, Stretch
from kvsim.sim.documents.summary import TraceName
from kvsim.sim.report.chart import Chart
from kvsim.sim.report.figures import log_ticks, new_figure, numbers
from kvsim.sim.report.page import Head, page
from kvsim.sim.report.palette import GREY, LINES
from kvsim.traces.common.text import counted, number
from kvsim.traces.reuse import DEFINITIONS
from kvsim.traces.reuse.ceiling import ceiling_by_session
from kvsim.traces.trace.trace import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import plotly.graph_objects as go

    from kvsim.traces.reuse import Hits, Reuse
    from kvsim.traces.reuse.ceiling import SessionReuse
    from kvsim.traces.trace.trace import Trace


SHARES: Final = (50, 90, 99)
"""Per cent of the ceiling for which the needed size is told."""
_GIB: Final = 2**30
_MOST_ROWS: Final = 60


@dataclass(slots=True)
class Shown:
    """A measured trace, the sizes and policies to show, and the replays (made here)."""

    trace: Trace
    reuse: Reuse
    capacities: Sequence[int]
    unit: str
    policies: Sequence[str] = ()
    kv_bytes_per_token: int | None = None
    sessions: dict[str, SessionReuse] = field(default_factory=dict)
    replays: dict[str, list[Hits]] = field(init=False)

    def __post_init__(self) -> None:
        self.replays = {
            policy: [self.reuse.replayed(policy, capacity) for capacity in self.capacities]
            for policy in self.policies
        }

    def add_sessions(self) -> None:
        """Split the ceiling by session."""
        if self.trace.session is None:
            raise TraceError(f"trace {self.trace.name} names no sessions: leave --sessions out")
        reuse = self.reuse
        self.sessions = ceiling_by_session(reuse.accesses, reuse.counted, self.trace.session)

    def needed(self, percent: int) -> int | None:
        """Return the smallest LRU cache that reaches ``percent`` of the ceiling, in blocks."""
        curve = self.reuse.curve
        hits = curve.blocks if self.unit == "blocks" else curve.tokens
        if not len(hits):
            return None
        index = int((hits * 100 >= percent * hits[-1]).argmax())
        return int(curve.capacities[index])

    def document(self) -> ReuseDocument:
        """All of it, for JSON."""
        reuse = self.reuse
        return ReuseDocument(
            trace=TraceName(name=self.trace.name, sha256=self.trace.sha256),
            definition=reuse.definition,
            definition_text=DEFINITIONS[reuse.definition],
            unit=self.unit,
            block_tokens=reuse.accesses.block_tokens,
            longest_request_blocks=reuse.accesses.longest_request,
            counted=Stretch(
                first_request=reuse.first,
                end_request=reuse.end,
                blocks=reuse.counted.all_blocks,
                tokens=reuse.counted.all_tokens,
            ),
            ceiling=reuse.ceiling,
            needed_blocks=NeededBlocks(
                percent_50=self.needed(50),
                percent_90=self.needed(90),
                percent_99=self.needed(99),
            ),
            policy="lru",
            curve=[self._point(size, reuse.curve.at(size)) for size in self.capacities],
            replays={
                policy: [
                    self._point(size, hits)
                    for size, hits in zip(self.capacities, replay, strict=True)
                ]
                for policy, replay in self.replays.items()
            },
            sessions=self.sessions or None,
        )

    def _point(self, capacity: int, hits: Hits) -> Point:
        tokens, per_token = capacity * self.reuse.accesses.block_tokens, self.kv_bytes_per_token
        return Point(
            capacity_blocks=capacity,
            capacity_tokens=tokens,
            hit_ratio=hits.ratio(self.unit),
            block_hit_ratio=hits.block_ratio,
            token_hit_ratio=hits.token_ratio,
            hit_blocks=hits.blocks,
            hit_tokens=hits.tokens,
            capacity_bytes=None if per_token is None else tokens * per_token,
        )

    def lines(self) -> list[str]:
        """Lines of the table."""
        return [*self._facts(), "", *self._curve(), *self._session_lines()]

    def _facts(self) -> list[str]:
        reuse, ceiling = self.reuse, self.reuse.ceiling
        stretch = f"{number(ceiling.requests)} of {counted(len(reuse.accesses), 'request')}, "
        stretch += f"{counted(ceiling.blocks, 'block')} of {reuse.accesses.block_tokens} tokens, "
        stretch += counted(ceiling.prompt_tokens, "prompt token")
        most = f"{100 * ceiling.token_ratio:.2f} % of tokens, {100 * ceiling.block_ratio:.2f} % "
        most += f"of blocks, {100 * ceiling.mean_request_token_ratio:.2f} % of a request on "
        most += f"average; {number(ceiling.requests_with_a_hit)} requests hit, "
        most += f"{number(ceiling.requests_fully_cached)} in full"
        lines = wrapped("trace", self.trace.name)
        lines += wrapped("a hit is", f"{reuse.definition}: {DEFINITIONS[reuse.definition]}")
        lines += wrapped("counted", stretch)
        lines += wrapped("infinite cache", most)
        for share in SHARES:
            size = self.needed(share)
            if size is not None:
                lines += wrapped(f"{share} % of that needs", f"{self._size(size)} (LRU)")
        return lines

    def _size(self, blocks: int) -> str:
        tokens = blocks * self.reuse.accesses.block_tokens
        text = f"{counted(blocks, 'block')}, {counted(tokens, 'token')}"
        if self.kv_bytes_per_token is not None:
            text += f", {tokens * self.kv_bytes_per_token / _GIB:,.2f} GiB"
        return text

    def _curve(self) -> list[str]:
        lines = [as_label(f"hit ratio, % of {self.unit}")]
        header = ["blocks", "tokens"]
        if self.kv_bytes_per_token is not None:
            header.append("GiB")
        header += ["LRU", *self.replays]
        rows = [header]
        for index, capacity in enumerate(self.capacities[:_MOST_ROWS]):
            tokens = capacity * self.reuse.accesses.block_tokens
            row = [number(capacity), short_count(tokens)]
            if self.kv_bytes_per_token is not None:
                row.append(f"{tokens * self.kv_bytes_per_token / _GIB:,.2f}")
            served = [self.reuse.curve.at(capacity)]
            served += [replay[index] for replay in self.replays.values()]
            rows.append([*row, *(f"{100 * hits.ratio(self.unit):.2f}" for hits in served)])
        lines += table(rows, first_width=12)
        if len(self.capacities) > _MOST_ROWS:
            rest = len(self.capacities) - _MOST_ROWS
            lines += [f"... {number(rest)} more sizes: see --json or --plot"]
        return lines

    def _session_lines(self) -> list[str]:
        if not self.sessions:
            return []
        ratios = sorted(session.token_ratio for session in self.sessions.values())
        middle = (ratios[(len(ratios) - 1) // 2] + ratios[len(ratios) // 2]) / 2
        mean = sum(ratios) / len(ratios)
        text = f"{number(len(ratios))}: mean {100 * mean:.1f} %, median {100 * middle:.1f} % of "
        text += "tokens with an infinite cache (each by itself: --json)"
        return ["", *wrapped("sessions", text)]


def short_count(tokens: float) -> str:
    """A count in at most a few letters: ``12.5k``."""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if tokens >= size:
            return f"{tokens / size:.4g}{unit}"
    return f"{tokens:g}"


_MOST_POINTS: Final = 2_000


def reuse_page(shown: Shown) -> Iterator[str]:
    """Parts of one HTML file: hit ratio against capacity."""
    trace = shown.trace
    digest = f", sha256 {trace.sha256[:16]}" if trace.sha256 else ""
    facts = (
        ("trace", f"{trace.name}, {counted(len(trace), 'request')}{digest}"),
        ("counted", f"{shown.reuse.definition}, hit ratio in {shown.unit}"),
    )
    return page(Head(f"{trace.name}: prefix reuse", facts), [_chart(shown)])


def _chart(shown: Shown) -> Chart:
    curve, unit = shown.reuse.curve, shown.unit
    tokens = shown.reuse.accesses.block_tokens
    figure = new_figure(
        f"capacity (blocks of {tokens} tokens, logarithmic)", f"hit ratio (% of {unit})", height=460
    )
    _add_curve(figure, shown)
    for (policy, replay), line in zip(shown.replays.items(), LINES[1:], strict=False):
        figure.add_scatter(
            x=list(shown.capacities),
            y=numbers([100 * hits.ratio(unit) for hits in replay]),
            mode="lines+markers",
            line=line,
            name=policy,
        )
    ceiling = 100 * curve.at(curve.largest_useful).ratio(unit)
    figure.add_hline(
        y=ceiling,
        line={"color": GREY, "dash": "dash"},
        annotation_text=f"infinite cache {ceiling:.2f} %",
        annotation_position="bottom right",
    )
    largest = max([*shown.capacities, curve.largest_useful, 10])
    figure.update_xaxes(**log_ticks([1, largest], short_count))
    return Chart(
        "Hit ratio against capacity",
        figure,
        "where the curve reaches the dashed line a larger cache buys nothing.",
        f"An infinite cache finds {ceiling:.2f} %; {curve.largest_useful:,} blocks find as much.",
    )


def _add_curve(figure: go.Figure, shown: Shown) -> None:
    """LRU at every size; long curves are thinned, evenly on the logarithmic axis."""
    import numpy as np

    curve = shown.reuse.curve
    chosen = np.arange(len(curve.capacities))
    if len(chosen) > _MOST_POINTS:
        chosen = np.unique(np.geomspace(1, len(chosen), _MOST_POINTS).astype(np.int64) - 1)
    sizes = curve.capacities[chosen].tolist()
    figure.add_scatter(
        x=sizes,
        y=numbers([100 * curve.at(size).ratio(shown.unit) for size in sizes]),
        mode="lines",
        line={**LINES[0], "shape": "hv"},
        name="LRU, every size",
    )
