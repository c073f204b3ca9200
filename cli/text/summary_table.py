"""The summary of a run as text: one table in 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kvsim.cli.text.summary_memory import memory_lines, swapping_lines
from kvsim.cli.text.table import table, wrapped
from kvsim.sim.cost.datasheet import is_assumed
from kvsim.sim.report.facts import goodput_text, throughput_text
from kvsim.traces.common.counted import counted
from kvsim.traces.common.readable import number, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kvsim.sim.pool.terms import MemoryTerm

    Section = Mapping[str, Any]  # a part of the summary document

_LATENCIES: Final = (
    ("TTFT", "ttft_s"),
    ("TPOT", "tpot_s"),
    ("ITL", "itl_s"),
    ("E2E", "e2e_s"),
    ("E2E per output token", "normalised_s_per_token"),
)
_REFUSED_SHOWN: Final = 5
_CAUSES: Final = {"step": "step in progress"}
"""Causes of waiting that are told in other words than their keys."""
_GIB: Final = 2**30
_MIB: Final = 2**20


def summary_lines(
    summary: Section, pool_terms: Sequence[MemoryTerm], over_time: Sequence[str] = ()
) -> list[str]:
    """Lines of the table; ``pool_terms`` are the plan of the pool, ``over_time`` its sketch."""
    parts = (
        _facts(summary),
        _latency(summary["latency"]),
        _rates(summary),
        memory_lines(summary["memory"], pool_terms),
        over_time,
        _events(summary),
    )
    lines: list[str] = []
    for part in filter(None, parts):
        lines += [*part, ""]
    return lines[:-1]


def _facts(summary: Section) -> list[str]:
    requests, window, phases = summary["requests"], summary["window"], summary["phases"]
    names = ["finished", "refused", "unfinished"]
    names += [name for name in ("aborted", "not_sent") if requests[name]]
    counts = ", ".join(f"{name.replace('_', ' ')} {number(requests[name])}" for name in names)
    lines = wrapped("trace", f"{summary['trace']['name']}, {counted(requests['total'], 'request')}")
    lines += wrapped("requests", counts)
    if requests["refused"]:
        shown = ", ".join(requests["refused_ids"][:_REFUSED_SHOWN])
        more = ", ..." if requests["refused"] > _REFUSED_SHOWN else ""
        lines += wrapped("  refused (never fit)", shown + more)
        for request, reason in list(requests["refused_reasons"].items())[:1]:
            lines += wrapped("  reason of the first", f"{request}: {reason}")
    named = (("ramp-up", "ramp_up"), ("steady", "steady"), ("drain", "drain"))
    stretches = ", ".join(f"{label} {seconds(phases[name]['seconds'])}" for label, name in named)
    lines += wrapped("window", f"{seconds(window['seconds'])}: {stretches}")
    lines += wrapped("engine", f"{summary['engine']['name']} ({summary['engine']['reason']})")
    if summary["engine"]["audited"]:
        lines += wrapped("audit", f"passed: {number(summary['engine']['audited'])} events checked")
    for note in summary["notes"]:
        lines += wrapped("note", note)
    if summary["partial"]:
        lines += wrapped("PARTIAL", "stopped by Ctrl-C; what follows is the part before it")
    return [*lines, *wrapped("verdict", summary["verdict"]["text"])]


def _latency(latency: Section) -> list[str]:
    statistics = ("mean", "p50", "p90", "p99")
    rows: list[tuple[str, ...]] = [("latency", *statistics)]
    for label, name in _LATENCIES:
        rows.append((label, *(seconds(latency[name][statistic]) for statistic in statistics)))
    return table(rows)


def _rates(summary: Section) -> list[str]:
    steady = summary["phases"]["steady"]
    lines = wrapped("throughput", throughput_text(summary["throughput"]))
    if steady["requests_per_s"] is not None:
        lines += wrapped(
            "  steady part",
            f"{number(steady['requests_per_s'])} requests/s, "
            f"{number(steady['output_tokens_per_s'])} output tokens/s, "
            f"{number(steady['mean_running'])} running, {number(steady['mean_waiting'])} waiting",
        )
    goodput = summary["goodput"]
    if goodput is not None:
        lines += wrapped("goodput", goodput_text(goodput))
    return lines


def _events(summary: Section) -> list[str]:
    cache, preempted, stalls = summary["cache"], summary["preemptions"], summary["stalls"]
    cost, waited, prediction = summary["cost"], summary["waited_s"], summary["prediction"]
    causes = ", ".join(f"{_CAUSES.get(cause, cause)} {seconds(waited[cause])}" for cause in waited)
    return [
        *wrapped(
            "prefix cache",
            f"{_hits(cache['hit_percent'])}, {counted(cache['evicted_blocks'], 'block')} evicted",
        ),
        *wrapped(
            "preemptions",
            f"{number(preempted['count'])} ({counted(preempted['requests'], 'request')}), "
            f"{counted(preempted['recomputed_tokens'], 'token')} recomputed",
        ),
        *swapping_lines(preempted, summary["host"]),
        *_relocations(summary["relocations"]),
        *_copies(summary["copy_on_write"]),
        *_retention(summary["retention"]),
        *wrapped(
            "stalls users saw",
            f"{number(stalls['count'])}, {seconds(stalls['seconds'])} in all, "
            f"longest {seconds(stalls['longest_s'])}",
        ),
        *wrapped("waited (request-s)", causes),
        *wrapped("longest wait", _longest_wait(summary["queue"])),
        *_users(summary["users"]),
        *(wrapped("predicted lengths", _prediction(prediction)) if prediction else ()),
        *wrapped("step cost", _step_cost(cost)),
    ]


def _hits(percent: float | None) -> str:
    if percent is None:
        return "no prompt was admitted"
    return f"{number(percent)} % of prompt tokens hit at first admission"


def _step_cost(cost: Section) -> str:
    if is_assumed(cost["source"]) or not cost["steps"]:
        return f"{cost['source']}; {counted(cost['steps'], 'step')}"
    return (
        f"{cost['source']}; {number(cost['percent_outside'])} % of "
        f"{counted(cost['steps'], 'step')} outside its measured range"
    )


def _copies(copies: Section) -> list[str]:
    if not copies["blocks"]:
        return []
    return wrapped(
        "copied on write",
        f"{counted(copies['blocks'], 'block')} of sequence groups, "
        f"{copies['bytes'] / _GIB:.2f} GiB, in {seconds(copies['copy_s'])}",
    )


def _relocations(moves: Section | None) -> list[str]:
    """Line of an allocator whose runs may be outgrown or slid."""
    if moves is None:
        return []
    return wrapped(
        "reservations",
        f"outgrown: {number(moves['grown_in_place'])} grew in place, {number(moves['moved'])} "
        f"moved, {number(moves['preempted'])} preempted; {number(moves['slid'])} slid; "
        f"{(moves['moved_bytes'] + moves['slid_bytes']) / _GIB:.2f} GiB copied in "
        f"{seconds(moves['copy_s'])}",
    )


def _retention(kept: Section | None) -> list[str]:
    """Lines on what was dropped, where groups keep less than the model attends to."""
    if kept is None:
        return []
    full, shared, by_head, holes = (
        f"{kept[f'{name}_mean_bytes'] / _GIB:.2f} GiB"
        for name in ("full", "shared", "per_head", "holes")
    )
    peaks = kept["peak_bytes_of_one"]
    lines = wrapped(
        "retention",
        f"{kept['kind']}, {counted(kept['budget'], 'token')}: {shared} held in the mean, "
        f"{holes} of it holes; tables of each head's own {by_head}; all computed tokens {full}",
    )
    lines += wrapped(
        "  peak of one",
        ", ".join(f"{state} {peak / _MIB:.1f} MiB" for state, peak in peaks.items()),
    )
    packed, scores = kept["compaction"], kept["scores"]
    if packed is not None:
        lines += wrapped(
            "  compaction",
            f"{counted(packed['freed_blocks'], 'block')} freed, "
            f"{packed['copied_bytes'] / _GIB:.2f} GiB copied in {seconds(packed['copy_s'])}",
        )
    if scores is not None:
        lines += wrapped(
            "  scores",
            f"mean {scores['mean_bytes'] / _MIB:.1f} MiB, peak "
            f"{scores['peak_bytes'] / _MIB:.1f} MiB outside the pool",
        )
    if kept["attention_mass_kept"] is not None:
        share = number(100 * kept["attention_mass_kept"])
        lines += wrapped("  attention mass kept", f"{share} % in the mean over decodes and layers")
    return lines


def _longest_wait(queue: Section) -> str:
    longest = seconds(queue["longest_wait_s"])
    if not queue["most_overtaken"]:
        return f"{longest}; nobody was overtaken by later arrivals"
    return (
        f"{longest}; overtaken by up to {counted(queue['most_overtaken'], 'later arrival')}, "
        f"{number(queue['starved_percent'])} % of the requests by more than "
        f"{number(queue['starved_after'])} (starved)"
    )


def _users(users: Section | None) -> list[str]:
    """Lines on what the heaviest user and the others met, where the trace names users."""
    if users is None:
        return []
    mean, heaviest = users["mean_ttft_s"], users["heaviest"]
    lines = wrapped(
        "users",
        f"{number(users['named'])}; mean TTFT of the median user {seconds(mean['median'])}, of the "
        f"worst {seconds(mean['worst'])}",
    )
    share = f"{number(heaviest['tokens_percent'])} % of all tokens"
    lines += wrapped("  heaviest", f"{heaviest['user'] or 'nameless'}, {share}: {_ttft(heaviest)}")
    return lines + wrapped("  all others", _ttft(users["others"]))


def _ttft(part: Section) -> str:
    ttft = part["ttft_s"]
    return f"TTFT mean {seconds(ttft['mean'])}, p99 {seconds(ttft['p99'])}"


def _prediction(prediction: Section) -> str:
    rank, parts = prediction["rank_correlation"], []
    for way in ("over", "under"):
        mean = prediction[f"{way}_mean_tokens"]
        by = f" by {number(mean)} tokens in the mean" if mean is not None else ""
        parts.append(f"{number(prediction[f'{way}_percent'])} % {way}{by}")
    return (
        f"{prediction['predictor']}: rank correlation "
        f"{'-' if rank is None else number(rank)}, {', '.join(parts)}"
    )
