"""The plan compared with an engine's start-up log; each difference has its reason."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kvsim.sim.documents.plan import LogFigure
from kvsim.sim.hardware import GIB
from kvsim.sim.pool.document import log_tokens
from kvsim.sim.pool.layout import BlockLayout
from kvsim.sim.pool.plan import PoolTooSmallError, plan

if TYPE_CHECKING:
    from kvsim.sim.pool.memory_terms import PoolRequest
    from kvsim.sim.pool.plan import Pool
    from kvsim.sim.pool.startup_log import StartupLog

GRAPHS_SET_ASIDE: Final = (0, 21)
"""First version that subtracts an estimate of CUDA graphs before KV."""
MANY_SEATS: Final = (0, 9)
"""First version whose server takes 1,024 requests on large cards; 256 before."""
OLD_SEATS: Final = 256
V0_SWAP_BYTES: Final = 4 * GIB
V0_LEAST_TOKENS: Final = 2048
V0_CHUNKS_FROM: Final = 32 * 1024
"""Above this length v0 chunks prefills by default; up to it, one step has a whole prompt."""
TOKENS_BY_CONCURRENCY: Final = (0, 22)
"""First version whose token count is concurrency x length; blocks // tables x size before."""
_PRINTED_GIB: Final = 0.0051
"""Logs print two decimals."""
_WHY: Final = {
    "total": "the log has the driver's figure for that card, the plan that of the bundled card",
    "weights": "the log counts what loading allocated: also buffers, padding and further parts",
    "activation peak": "the plan assumes a formula; the log has a measurement (use --peak-gib)",
    "non-torch": "the plan assumes a constant; the log has a measurement (use --non-torch-gib)",
    "graphs": "the plan assumes a constant; the log has an estimate at start (use --graphs-gib)",
}


def as_in_log(
    request: PoolRequest, log: StartupLog, *, seats_given: bool, tokens_given: bool = False
) -> tuple[PoolRequest, tuple[str, ...]]:
    """Return the request with the differences of the log's version, and a sentence on each."""
    changed, notes = request, []
    old = log.version is not None and log.version < MANY_SEATS
    if old and not seats_given and request.max_num_seqs > OLD_SEATS:
        changed = replace(changed, max_num_seqs=OLD_SEATS)
        notes.append(f"max_num_seqs {OLD_SEATS}: the default of the log's version")
    tokens = max(request.model_len, V0_LEAST_TOKENS)
    if _whole_prompts(log) and not tokens_given and request.model_len <= V0_CHUNKS_FROM:
        changed = replace(changed, max_num_batched_tokens=tokens)
        notes.append(f"max_num_batched_tokens {tokens}: v0 does not chunk prompts of this length")
    if request.graphs_bytes is None and not _sets_graphs_aside(log):
        changed = replace(changed, graphs_bytes=0)
        notes.append(
            "graphs 0: the log's version reserves no memory for them before KV (0.21 and later do)"
        )
    if log.get("cpu_blocks") and not request.swap_bytes:
        changed = replace(changed, swap_bytes=V0_SWAP_BYTES)
        notes.append("swap space 4 GiB a rank: v0's default")
    if any(group.window is not None for group in request.model.groups):
        changed = _with_batches_in_flight(changed, log)
        notes.append(
            f"windows keep the tokens of {changed.batches_in_flight} steps in flight, which is"
            " nearer to the log's concurrency than the alternative (1 or 2, by version)"
        )
    return changed, tuple(notes)


def _with_batches_in_flight(request: PoolRequest, log: StartupLog) -> PoolRequest:
    """Choose the number of steps in flight whose tokens a window keeps; it differs by version."""
    theirs, kv_gib = log.get("concurrency"), log.get("kv_gib")
    if theirs is None or kv_gib is None or kv_gib <= 0:
        return request
    length = int(log.get("concurrency_length") or request.model_len)

    def gap(batches: int) -> float:
        given = replace(request, kv_memory_bytes=int(kv_gib * GIB), batches_in_flight=batches)
        return abs(plan(given).max_concurrency(length, given.step_tokens) - theirs)

    try:
        return replace(request, batches_in_flight=min((1, 2), key=gap))
    except PoolTooSmallError:
        return request


def match_log(request: PoolRequest, pool: Pool, log: StartupLog) -> tuple[LogFigure, ...]:
    """Rows in the order of the plan; figures that the log does not print are left out."""
    terms = {term.name: term.num_bytes / GIB for term in pool.terms}
    total = (request.total_bytes or request.hardware.total_bytes) / GIB
    rows = [
        _gib_row("total", total, log.get("total_gib")),
        _gib_row("usable", terms.get("usable"), log.get("usable_gib")),
        _gib_row("weights", terms.get("weights"), log.get("weights_gib")),
        _gib_row("activation peak", terms.get("activation peak"), log.get("peak_gib")),
        _gib_row("non-torch", terms.get("non-torch"), log.get("non_torch_gib")),
        _graphs_row(terms.get("graphs"), log),
    ]
    rows.append(_kv_row(pool, log, rows))
    rows += _block_rows(request, pool, log)
    return tuple(row for row in rows if row.theirs is not None)


def _whole_prompts(log: StartupLog) -> bool:
    """Whether this is v0 (which has CPU blocks) without chunked prefill."""
    return log.get("cpu_blocks") is not None and (
        "engine.max_num_batched_tokens" not in log.options
    )


def _sets_graphs_aside(log: StartupLog) -> bool:
    if log.get("graphs_estimate_gib") is not None:
        return True
    return log.version is not None and log.version >= GRAPHS_SET_ASIDE


def _figure(
    name: str, ours: float | None, theirs: float | None, why: str, *, unit: str = ""
) -> LogFigure:
    return LogFigure(name=name, unit=unit, ours=ours, theirs=theirs, why=why)


def _gib_row(name: str, ours: float | None, theirs: float | None) -> LogFigure:
    same = ours is not None and theirs is not None and abs(ours - theirs) <= _PRINTED_GIB
    why = "" if same else _WHY.get(name, "follows from the total")
    return _figure(name, ours, theirs, why, unit="GiB")


def _graphs_row(ours: float | None, log: StartupLog) -> LogFigure:
    if _sets_graphs_aside(log):
        return _gib_row("graphs", ours, log.get("graphs_estimate_gib"))
    why = "captured after KV was sized, from the memory beyond the utilisation"
    return _figure("graphs", ours, log.get("graphs_gib"), why, unit="GiB")


def _kv_row(pool: Pool, log: StartupLog, rows: list[LogFigure]) -> LogFigure:
    """Return the KV row; its difference is the sum of the differences before it."""
    ours, theirs = pool.kv_bytes / GIB, log.get("kv_gib")
    implied = ""
    blocks = _blocks_of(pool, log)
    if theirs is None and blocks is not None:
        theirs = blocks * pool.block_bytes / GIB
        implied = f" (log: {blocks:,} blocks x {pool.block_bytes:,} B)"
    if theirs is None or abs(ours - theirs) <= _PRINTED_GIB:
        return _figure("KV", ours, theirs, "", unit="GiB")
    parts, known = [], 0.0
    left_out = ("total",) if _sets_graphs_aside(log) else ("total", "graphs")
    for row in rows:
        if row.name in left_out or row.ours is None or row.theirs is None:
            continue
        gap = (row.ours - row.theirs) * (1 if row.name == "usable" else -1)
        known += gap
        if abs(gap) > _PRINTED_GIB:
            parts.append(f"{row.name} {gap:+.2f}")
    rest = ours - theirs - known
    if abs(rest) >= _PRINTED_GIB:
        parts.append(f"rest (what the log does not print, rounding) {rest:+.2f}")
    why = f"{ours - theirs:+.2f}: " + ", ".join(parts) + implied
    return _figure("KV", ours, theirs, why, unit="GiB")


def _blocks_of(pool: Pool, log: StartupLog) -> int | None:
    """Blocks of the log, from its tokens where every token is in one table."""
    blocks, tokens = log.get("gpu_blocks"), log.get("kv_tokens")
    if blocks is not None:
        return int(blocks)
    if tokens is None or pool.layout.blocks_for(pool.block_size) > 1:
        return None
    return int(tokens) // pool.block_size


def _log_tokens(request: PoolRequest, pool: Pool, log: StartupLog) -> int:
    """Tokens as the log's version counts them; 0.22 changed the count for mixed layers."""
    tables = len(pool.layout.tables.groups) if isinstance(pool.layout, BlockLayout) else 1
    if log.version is not None and log.version < TOKENS_BY_CONCURRENCY:
        return pool.num_blocks // tables * pool.block_size
    return log_tokens(request, pool)


def _block_rows(request: PoolRequest, pool: Pool, log: StartupLog) -> list[LogFigure]:
    kv_gib = log.get("kv_gib")
    by_theirs = _blocks_of(pool, log)
    if kv_gib is not None:
        by_theirs = max(int(kv_gib * GIB), 0) // pool.block_bytes
    slack = int(_PRINTED_GIB * GIB) // pool.block_bytes + 1
    length = int(log.get("concurrency_length") or request.model_len)

    def row(name: str, ours: float, theirs: float | None) -> LogFigure:
        """Compare the log's figure with the plan's rule for the KV memory of the log."""
        if theirs is None or by_theirs is None:
            why = "" if theirs == ours else "the log has neither KV memory nor blocks to compare"
            return _figure(name, ours, theirs, why)
        expected = ours * by_theirs / pool.num_blocks
        share = slack / max(by_theirs, 1)
        agrees = abs(theirs - expected) <= share * expected + 0.02 * (expected < 1000)
        verdict = "as in the log" if agrees else "not the log's: see block size and TP"
        shown = f"{expected:,.0f}" if expected >= 1000 else f"{expected:,.2f}"
        source = "the log's blocks" if kv_gib is None else "the log's KV in planned blocks"
        return _figure(name, ours, theirs, f"{source} gives {shown}, {verdict}")

    at_length = replace(request, max_model_len=length)
    cpu = request.swap_bytes // pool.block_bytes
    cpu_why = f"swap space of {request.swap_bytes / GIB:g} GiB a rank" if cpu else ""
    concurrency = pool.max_concurrency(length, request.step_tokens)
    return [
        row("blocks", pool.num_blocks, log.get("gpu_blocks")),
        _figure("CPU blocks", cpu, log.get("cpu_blocks"), cpu_why),
        row("KV cache tokens", _log_tokens(at_length, pool, log), log.get("kv_tokens")),
        row("max concurrency", concurrency, log.get("concurrency")),
    ]
