"""What a comparison keeps of one run: shares of KV memory, a few metrics, the verdict."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np

from kvsim.sim.comparison.thumbnail import kv_in_use, thumbnail_of
from kvsim.sim.documents import comparison as documents
from kvsim.sim.documents.comparison import Metrics, Shares, Views
from kvsim.sim.documents.kv_memory import PaperStates, Primitives, States
from kvsim.sim.metrics import shares as memory_shares
from kvsim.sim.metrics.phases import Windows
from kvsim.sim.metrics.tables import series_table
from kvsim.sim.scenario.loader import scenario_to_dict
from kvsim.traces.common.text import storable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import pandas as pd

    from kvsim.sim.comparison.thumbnail import Thumbnail
    from kvsim.sim.documents.summary import Summary
    from kvsim.sim.run.run import Run


class Row(documents.Row):
    """One scenario's result; ``thumbnail`` is for drawing alone."""

    thumbnail: Thumbnail = field(repr=False, compare=False)


def row_of(name: str, run: Run) -> Row:
    """Row of a finished run."""
    recorder, pool, summary = run.engine.recorder, run.setup.pool, run.summary
    waiting = memory_shares.while_waiting(recorder, pool)
    series = series_table(recorder, pool)
    return Row(
        name=name,
        trace=run.trace.name,
        rate_scale=str(run.options.rate_scale),
        scenario=scenario_to_dict(run.scenario),
        kv_bytes_share=Shares(
            all_time=_primitives(memory_shares.all_time(recorder, pool)),
            while_waiting=_primitives(waiting),
        ),
        views=_views(waiting),
        kv_in_use=kv_in_use(series),
        metrics=_metrics(summary, run),
        verdict=summary.verdict,
        notes=summary.notes,
        verified=summary.scenario.verified,
        cost=summary.cost,
        thumbnail=thumbnail_of(series),
    )


def _primitives(parts: Mapping[str, int]) -> Primitives | None:
    return Primitives(**_fractions(parts)) if any(parts.values()) else None


def _views(parts: Mapping[str, int]) -> Views:
    if not any(parts.values()):
        return Views(six=None, sosp23=None)
    return Views(
        six=States(**_fractions(memory_shares.states(parts))),
        sosp23=PaperStates(**_fractions(memory_shares.states(parts, "sosp23"))),
    )


def _fractions(parts: Mapping[str, int]) -> dict[str, float]:
    total = sum(parts.values())
    return {name: value / total for name, value in parts.items()}


def _metrics(summary: Summary, run: Run) -> Metrics:
    """Numbers of a run that are compared; ``None`` where undefined."""
    windows, waited = Windows.of(run.engine.recorder), run.engine.recorder.while_waiting
    latency, kept, users = summary.latency, summary.retention, summary.users
    ttft_s, tpot_s, e2e_s, goodput = latency.ttft_s, latency.tpot_s, latency.e2e_s, summary.goodput
    return Metrics(
        pool_bytes=run.setup.pool.pool_bytes,
        arrivals_per_s=_arrival_rate(summary),
        finished=summary.requests.finished,
        refused=summary.requests.refused,
        unfinished=summary.requests.unfinished,
        mean_running=windows.mean_between(windows.running, 0, run.engine.recorder.end_ps),
        mean_running_while_waiting=waited["running"] / waited["window"]
        if waited["window"]
        else None,
        peak_running=run.engine.recorder.peak_running,
        sustained_requests_per_s=summary.throughput.sustained_requests_per_s,
        requests_per_s=summary.throughput.requests_per_s,
        output_tokens_per_s=summary.throughput.output_tokens_per_s,
        ttft_s_mean=ttft_s.mean,
        ttft_s_p50=ttft_s.p50,
        ttft_s_p99=ttft_s.p99,
        tpot_s_mean=tpot_s.mean,
        tpot_s_p50=tpot_s.p50,
        tpot_s_p99=tpot_s.p99,
        e2e_s_mean=e2e_s.mean,
        e2e_s_p50=e2e_s.p50,
        e2e_s_p99=e2e_s.p99,
        goodput_requests_per_s=None if goodput is None else goodput.requests_per_s,
        longest_wait_s=summary.queue.longest_wait_s,
        most_overtaken=summary.queue.most_overtaken,
        starved=summary.queue.starved,
        heaviest_user_ttft_s_mean=None if users is None else users.heaviest.ttft_s.mean,
        other_users_ttft_s_mean=None if users is None else users.others.ttft_s.mean,
        other_users_ttft_s_p99=None if users is None else users.others.ttft_s.p99,
        preemptions=summary.preemptions.count,
        swaps=summary.preemptions.by_mode.swap,
        copying_s=summary.host.copying_s,
        hit_percent=summary.cache.hit_percent,
        sharing_savings_percent=summary.memory.while_waiting.sharing.savings_percent,
        retention_full_mean_bytes=None if kept is None else kept.full_mean_bytes,
        retention_shared_mean_bytes=None if kept is None else kept.shared_mean_bytes,
        retention_per_head_mean_bytes=None if kept is None else kept.per_head_mean_bytes,
        retention_holes_percent_of_held=None if kept is None else kept.holes_percent_of_held,
        retention_attention_mass_kept=None if kept is None else kept.attention_mass_kept,
    )


def _arrival_rate(summary: Summary) -> float | None:
    """Requests a second between the first arrival and the last."""
    span_s = summary.window.last_arrival_s - summary.window.first_arrival_s
    return (summary.requests.total - 1) / span_s if span_s else None


def stacked(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Frames of the same columns below each other, each row after the name of its frame."""
    import pandas as pd  # noqa: PLC0415 - only who asks for a frame pays for pandas

    table = pd.concat(frames.values(), ignore_index=True)
    places = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames.values()])
    names = pd.Categorical.from_codes(places, pd.Index(storable([*frames])))
    table.insert(0, "name", pd.Series(names))
    return table


def row_numbers(row: Row) -> dict[str, Any]:
    """Columns of one run: its metrics, verdict, and shares of KV memory while requests waited."""
    shares = {} if row.views.six is None else row.views.six.to_dict()
    name, trace = storable([row.name, row.trace])
    return {
        "name": name,
        "trace": trace,
        "rate_scale": row.rate_scale,
        "verdict": row.verdict.kind,
        **row.metrics.to_dict(),
        **{f"{state}_share": share for state, share in shares.items()},
    }
