"""Memory in the summary of a run: the pool's plan, what it held, what went to the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kvsim.cli.text.table import table, wrapped
from kvsim.sim.metrics.shares import STATES
from kvsim.traces.common.counted import counted
from kvsim.traces.common.readable import number, seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kvsim.sim.pool.terms import MemoryTerm

    Section = Mapping[str, Any]  # a part of the summary document

_GIB: Final = 2**30
_MEMORY_LABEL: Final = 24
_MEMORY_CELL: Final = 16
_WHILE_WAITING: Final = "while waiting: the last scheduling call had left requests in the queue"
_NOBODY_WAITED: Final = "no request waited for memory or a seat, at most for a step to end"


def memory_lines(memory: Section, pool_terms: Sequence[MemoryTerm]) -> list[str]:
    """Lines of the pool and of what it held, all the time and while requests waited."""
    parts = {"all time": memory["all_time"], "while waiting": memory["while_waiting"]}
    if not memory["while_waiting"]["seconds"]:
        del parts["while waiting"]
    rows: list[tuple[str, ...]] = [("KV memory", *parts)]
    rows += [(state, *_shares(parts.values(), state)) for state in STATES]
    sums = [sum(part["states_percent"].values()) for part in parts.values()]
    rows.append(("sum", *(f"{total:.2f} %" if total else "-" for total in sums)))
    rows.append(("over", *(seconds(part["seconds"]) for part in parts.values())))
    about = _WHILE_WAITING if "while waiting" in parts else _NOBODY_WAITED
    width = _MEMORY_LABEL + _MEMORY_CELL * len(parts)
    shares = table(rows, first_width=_MEMORY_LABEL, width=width)
    return [
        *_pool(memory, pool_terms),
        *shares,
        *wrapped("", about, first_width=2),
        *_sharing(parts),
    ]


def _sharing(parts: Mapping[str, Section]) -> list[str]:
    """What blocks of several owners save, if any have."""
    saved = {
        label: part["sharing"]["savings_percent"]
        for label, part in parts.items()
        if part["sharing"]["savings_percent"]
    }
    if not saved:
        return []
    words = ", ".join(f"{label} {percent:.1f} %" for label, percent in saved.items())
    return wrapped("sharing saves", f"of the blocks that owners hold: {words}")


def _pool(memory: Section, pool_terms: Sequence[MemoryTerm]) -> list[str]:
    """Lines of the plan: what the engine may use, what it spends, what is left for KV."""
    lines = []
    for number_, term in enumerate(pool_terms):
        sign = "-" if number_ else " "
        assumed = ", assumed" if term.assumed else ""
        amount = f"{sign}{term.num_bytes / _GIB:.2f} GiB"
        lines += wrapped(f"  {term.name:<16}", f"{amount:>10}  {term.formula}{assumed}", hang=12)
    size = memory["block_size"]
    shape = f"blocks of {size} tokens" if size > 1 else "slots of one token"
    blocks = f"{number(memory['num_gpu_blocks'])} {shape}, {memory['pool_bytes'] / _GIB:.2f} GiB"
    return [*wrapped("KV pool", blocks), *lines]


def _shares(parts: Iterable[Section], state: str) -> list[str]:
    return [f"{part['states_percent'][state]:.2f} %" if part["seconds"] else "-" for part in parts]


def swapping_lines(preempted: Section, host: Section) -> list[str]:
    """Lines on host memory, where anybody went there or could have."""
    by_mode, auto = preempted["by_mode"], preempted["auto"]
    lines = []
    if by_mode["swap"] or host["times_full"]:
        lines += wrapped(
            "  swapped",
            f"{number(by_mode['swap'])} of them, {number(host['times_full'])} more found the host "
            f"full; out {host['swapped_out_bytes'] / _GIB:.2f} GiB, back "
            f"{host['swapped_in_bytes'] / _GIB:.2f} GiB, copies took {seconds(host['copying_s'])}",
        )
        lines += wrapped(
            "  host memory",
            f"mean {host['mean_bytes'] / _GIB:.2f} GiB, peak {host['peak_bytes'] / _GIB:.2f} GiB",
        )
    if auto is not None:
        lines += wrapped(
            "  auto was right",
            f"{number(auto['percent_right'])} % of {counted(auto['judged'], 'choice')} whose "
            "victim came back",
        )
    return lines
