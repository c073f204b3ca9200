"""The summary of a run as text: one table in 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.cli.text.table import table, wrapped
from kvsim.sim.cost.datasheet import is_assumed
from kvsim.sim.metrics.shares import STATES
from kvsim.sim.report.facts import goodput_text, request_counts, throughput_text
from kvsim.traces.common.text import counted, number, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kvsim.sim.documents.kv_memory import (
        CopyOnWrite,
        Host,
        Memory,
        MemoryHeld,
        Relocations,
        Retention,
    )
    from kvsim.sim.documents.summary import (
        Cost,
        Latency,
        OtherUsers,
        Prediction,
        Preemptions,
        Queue,
        Summary,
        Users,
    )
    from kvsim.sim.pool.memory_terms import MemoryTerm


_GIB: Final = 2**30
_MEMORY_LABEL: Final = 24
_MEMORY_CELL: Final = 16
_WHILE_WAITING: Final = "while waiting: the last scheduling call had left requests in the queue"
_NOBODY_WAITED: Final = "no request waited longer than for a step to end"


def memory_lines(memory: Memory, pool_terms: Sequence[MemoryTerm]) -> list[str]:
    """Lines of the pool and of what it held, all the time and while requests waited."""
    parts = {"all time": memory.all_time, "while waiting": memory.while_waiting}
    if not memory.while_waiting.seconds:
        del parts["while waiting"]
    rows: list[tuple[str, ...]] = [("KV memory", *parts)]
    shares = [part.states_percent.to_dict() for part in parts.values()]
    known = [bool(part.seconds) for part in parts.values()]
    rows += [(state, *_percents([share[state] for share in shares], known)) for state in STATES]
    sums = [sum(share.values()) for share in shares]
    rows.append(("sum", *_percents(sums, map(bool, sums))))
    rows.append(("over", *(seconds(part.seconds) for part in parts.values())))
    about = _WHILE_WAITING if "while waiting" in parts else _NOBODY_WAITED
    width = _MEMORY_LABEL + _MEMORY_CELL * len(parts)
    return [
        *_pool(memory, pool_terms),
        *table(rows, first_width=_MEMORY_LABEL, width=width),
        *wrapped("", about, first_width=2),
        *_sharing(parts),
    ]


def _sharing(parts: Mapping[str, MemoryHeld]) -> list[str]:
    """What blocks of several owners save, if any have."""
    saved = [(label, part.sharing.savings_percent) for label, part in parts.items()]
    words = ", ".join(f"{label} {percent:.1f} %" for label, percent in saved if percent)
    return wrapped("sharing saves", f"of the blocks that owners hold: {words}") if words else []


def _pool(memory: Memory, pool_terms: Sequence[MemoryTerm]) -> list[str]:
    """Lines of the plan: what the engine may use, what it spends, what is left for KV."""
    lines = []
    for number_, term in enumerate(pool_terms):
        sign = "-" if number_ else " "
        assumed = ", assumed" if term.assumed else ""
        amount = f"{sign}{term.num_bytes / _GIB:.2f} GiB"
        lines += wrapped(f"  {term.name:<16}", f"{amount:>10}  {term.formula}{assumed}", hang=12)
    size = memory.block_size
    shape = f"blocks of {size} tokens" if size > 1 else "slots of one token"
    blocks = f"{number(memory.num_gpu_blocks)} {shape}, {memory.pool_bytes / _GIB:.2f} GiB"
    return [*wrapped("KV pool", blocks), *lines]


def _percents(values: Iterable[float], known: Iterable[bool]) -> list[str]:
    pairs = zip(values, known, strict=True)
    return [f"{value:.2f} %" if is_known else "-" for value, is_known in pairs]


def swapping_lines(preempted: Preemptions, host: Host) -> list[str]:
    """Lines on host memory, where anybody went there or could have."""
    swaps, auto = preempted.by_mode.swap, preempted.auto
    lines = []
    if swaps or host.times_full:
        lines += wrapped(
            "  swapped",
            f"{number(swaps)} of them, {number(host.times_full)} more found the host "
            f"full; out {host.swapped_out_bytes / _GIB:.2f} GiB, back "
            f"{host.swapped_in_bytes / _GIB:.2f} GiB, copies took {seconds(host.copying_s)}",
        )
        lines += wrapped(
            "  host memory",
            f"mean {host.mean_bytes / _GIB:.2f} GiB, peak {host.peak_bytes / _GIB:.2f} GiB",
        )
    if auto is not None:
        lines += wrapped(
            "  auto was right",
            f"{number(auto.percent_right)} % of {counted(auto.judged, 'choice')} whose "
            "victim came back",
        )
    return lines


_REFUSED_SHOWN: Final = 5
_CAUSES: Final = {"step": "step in progress"}
"""Causes of waiting that are told in other words than their keys."""
_MIB: Final = 2**20


def summary_lines(
    summary: Summary, pool_terms: Sequence[MemoryTerm], over_time: Sequence[str] = ()
) -> list[str]:
    """Lines of the table; ``pool_terms`` are the plan of the pool, ``over_time`` its sparklines."""
    parts = (
        _facts(summary),
        _latency(summary.latency),
        _rates(summary),
        memory_lines(summary.memory, pool_terms),
        over_time,
        _events(summary),
    )
    lines: list[str] = []
    for part in filter(None, parts):
        lines += [*part, ""]
    return lines[:-1]


def _facts(summary: Summary) -> list[str]:
    requests, phases, engine = summary.requests, summary.phases, summary.engine
    counts = ", ".join(f"{name} {number(count)}" for name, count in request_counts(requests))
    lines = wrapped("trace", f"{summary.trace.name}, {counted(requests.total, 'request')}")
    lines += wrapped("requests", counts)
    if requests.refused:
        shown = ", ".join(requests.refused_ids[:_REFUSED_SHOWN])
        more = ", ..." if requests.refused > _REFUSED_SHOWN else ""
        lines += wrapped("  refused (never fit)", shown + more)
        for request, reason in list(requests.refused_reasons.items())[:1]:
            lines += wrapped("  reason of the first", f"{request}: {reason}")
    named = (("ramp-up", phases.ramp_up), ("steady", phases.steady), ("drain", phases.drain))
    stretches = ", ".join(f"{label} {seconds(phase.seconds)}" for label, phase in named)
    lines += wrapped("window", f"{seconds(summary.window.seconds)}: {stretches}")
    lines += wrapped("engine", f"{engine.name} ({engine.reason})")
    if engine.audited:
        lines += wrapped("audit", f"passed: {number(engine.audited)} events checked")
    for note in summary.notes:
        lines += wrapped("note", note)
    if summary.partial:
        lines += wrapped("PARTIAL", "stopped by Ctrl-C; what follows is the part before it")
    return [*lines, *wrapped("verdict", summary.verdict.text, verdict=summary.verdict.kind)]


def _latency(latency: Latency) -> list[str]:
    rows: list[tuple[str, ...]] = [("latency", "mean", "p50", "p90", "p99")]
    for label, found in (
        ("TTFT", latency.ttft_s),
        ("TPOT", latency.tpot_s),
        ("ITL", latency.itl_s),
        ("E2E", latency.e2e_s),
        ("E2E per output token", latency.normalised_s_per_token),
    ):
        rows.append((label, *map(seconds, (found.mean, found.p50, found.p90, found.p99))))
    return table(rows)


def _rates(summary: Summary) -> list[str]:
    steady = summary.phases.steady
    lines = wrapped("throughput", throughput_text(summary.throughput))
    if steady.requests_per_s is not None:
        lines += wrapped(
            "  steady part",
            f"{number(steady.requests_per_s)} requests/s, "
            f"{number(steady.output_tokens_per_s)} output tokens/s, "
            f"{number(steady.mean_running)} running, {number(steady.mean_waiting)} waiting",
        )
    if summary.goodput is not None:
        lines += wrapped("goodput", goodput_text(summary.goodput))
    return lines


def _events(summary: Summary) -> list[str]:
    cache, preempted, stalls = summary.cache, summary.preemptions, summary.stalls
    prediction = summary.prediction
    waited = summary.waited_s.to_dict().items()
    causes = ", ".join(f"{_CAUSES.get(cause, cause)} {seconds(wait)}" for cause, wait in waited)
    return [
        *wrapped(
            "prefix cache",
            f"{_hits(cache.hit_percent)}, {counted(cache.evicted_blocks, 'block')} evicted",
        ),
        *wrapped(
            "preemptions",
            f"{number(preempted.count)} ({counted(preempted.requests, 'request')}), "
            f"{counted(preempted.recomputed_tokens, 'token')} recomputed",
        ),
        *swapping_lines(preempted, summary.host),
        *_relocations(summary.relocations),
        *_copies(summary.copy_on_write),
        *_retention(summary.retention),
        *wrapped(
            "stalls users saw",
            f"{number(stalls.count)}, {seconds(stalls.seconds)} in all, "
            f"longest {seconds(stalls.longest_s)}",
        ),
        *wrapped("waited (request-s)", causes),
        *wrapped("longest wait", _longest_wait(summary.queue)),
        *_users(summary.users),
        *(wrapped("predicted lengths", _prediction(prediction)) if prediction else ()),
        *wrapped("step cost", _step_cost(summary.cost)),
    ]


def _hits(percent: float | None) -> str:
    if percent is None:
        return "no prompt was admitted"
    return f"{number(percent)} % of prompt tokens hit at first admission"


def _step_cost(cost: Cost) -> str:
    if is_assumed(cost.source) or not cost.steps:
        return f"{cost.source}; {counted(cost.steps, 'step')}"
    return (
        f"{cost.source}; {number(cost.percent_outside)} % of "
        f"{counted(cost.steps, 'step')} outside its measured range"
    )


def _copies(copies: CopyOnWrite) -> list[str]:
    if not copies.blocks:
        return []
    return wrapped(
        "copied on write",
        f"{counted(copies.blocks, 'block')} of sequence groups, "
        f"{copies.bytes / _GIB:.2f} GiB, in {seconds(copies.copy_s)}",
    )


def _relocations(moves: Relocations | None) -> list[str]:
    """Line of an allocator whose runs may be outgrown or slid."""
    if moves is None:
        return []
    return wrapped(
        "reservations",
        f"outgrown: {number(moves.grown_in_place)} grew in place, {number(moves.moved)} "
        f"moved, {number(moves.preempted)} preempted; {number(moves.slid)} slid; "
        f"{(moves.moved_bytes + moves.slid_bytes) / _GIB:.2f} GiB copied in "
        f"{seconds(moves.copy_s)}",
    )


def _retention(kept: Retention | None) -> list[str]:
    """Lines on what was dropped, where groups keep less than the model attends to."""
    if kept is None:
        return []
    full, shared, by_head, holes = (
        f"{size / _GIB:.2f} GiB"
        for size in (
            kept.full_mean_bytes,
            kept.shared_mean_bytes,
            kept.per_head_mean_bytes,
            kept.holes_mean_bytes,
        )
    )
    peaks = kept.peak_bytes_of_one.to_dict()
    lines = wrapped(
        "retention",
        f"{kept.kind}, {counted(kept.budget, 'token')}: {shared} held in the mean, "
        f"{holes} of it holes; tables of each head's own {by_head}; all computed tokens {full}",
    )
    lines += wrapped(
        "  peak of one",
        ", ".join(f"{state} {peak / _MIB:.1f} MiB" for state, peak in peaks.items()),
    )
    packed, scores = kept.compaction, kept.scores
    if packed is not None:
        lines += wrapped(
            "  compaction",
            f"{counted(packed.freed_blocks, 'block')} freed, "
            f"{packed.copied_bytes / _GIB:.2f} GiB copied in {seconds(packed.copy_s)}",
        )
    if scores is not None:
        lines += wrapped(
            "  scores",
            f"mean {scores.mean_bytes / _MIB:.1f} MiB, peak "
            f"{scores.peak_bytes / _MIB:.1f} MiB outside the pool",
        )
    if kept.attention_mass_kept is not None:
        share = number(100 * kept.attention_mass_kept)
        lines += wrapped("  attention mass kept", f"{share} % in the mean over decodes and layers")
    return lines


def _longest_wait(queue: Queue) -> str:
    longest = seconds(queue.longest_wait_s)
    if not queue.most_overtaken:
        return f"{longest}; nobody was overtaken by later arrivals"
    return (
        f"{longest}; overtaken by up to {counted(queue.most_overtaken, 'later arrival')}, "
        f"{number(queue.starved_percent)} % of the requests by more than "
        f"{number(queue.starved_after)} (starved)"
    )


def _users(users: Users | None) -> list[str]:
    """Lines on what the heaviest user and the others met, where the trace names users."""
    if users is None:
        return []
    mean, heaviest = users.mean_ttft_s, users.heaviest
    lines = wrapped(
        "users",
        f"{number(users.named)}; mean TTFT of the median user {seconds(mean.median)}, of the "
        f"worst {seconds(mean.worst)}",
    )
    share = f"{number(heaviest.tokens_percent)} % of all tokens"
    lines += wrapped("  heaviest", f"{heaviest.user or 'nameless'}, {share}: {_ttft(heaviest)}")
    return lines + wrapped("  all others", _ttft(users.others))


def _ttft(users: OtherUsers) -> str:
    return f"TTFT mean {seconds(users.ttft_s.mean)}, p99 {seconds(users.ttft_s.p99)}"


def _prediction(prediction: Prediction) -> str:
    rank, parts = prediction.rank_correlation, []
    for way, percent, mean in (
        ("over", prediction.over_percent, prediction.over_mean_tokens),
        ("under", prediction.under_percent, prediction.under_mean_tokens),
    ):
        by = f" by {number(mean)} tokens in the mean" if mean is not None else ""
        parts.append(f"{number(percent)} % {way}{by}")
    return (
        f"{prediction.predictor}: rank correlation "
        f"{'-' if rank is None else number(rank)}, {', '.join(parts)}"
    )
