"""Which single change frees most KV memory, for messages and ``kvsim plan``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvsim.sim.hardware import GIB
from kvsim.sim.memory_terms import memory_terms
from kvsim.sim.models.dtypes import weight_format

if TYPE_CHECKING:
    from kvsim.sim.memory_terms import PoolRequest

HIGH_UTILIZATION = 0.95
FEW_SEATS = 64
FEW_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class Lever:
    """One change of the command line and the KV bytes a rank gains by it."""

    change: str
    freed_bytes: int


def levers(request: PoolRequest) -> tuple[Lever, ...]:
    """Single changes that free KV memory, best first; terms given by hand do not move."""
    model = request.model
    tries = {
        f"gpu_memory_utilization {request.gpu_memory_utilization:g} -> {HIGH_UTILIZATION}": replace(
            request,
            gpu_memory_utilization=max(request.gpu_memory_utilization, HIGH_UTILIZATION),
        ),
        f"max_num_seqs {request.max_num_seqs} -> {FEW_SEATS}": replace(
            request, max_num_seqs=min(request.max_num_seqs, FEW_SEATS)
        ),
        f"max_num_batched_tokens {request.max_num_batched_tokens} -> {FEW_TOKENS}": replace(
            request, max_num_batched_tokens=min(request.max_num_batched_tokens, FEW_TOKENS)
        ),
    }
    chosen = model.weight_dtype or model.dtype
    now = weight_format(chosen if request.weight_dtype == "auto" else request.weight_dtype)
    for smaller in ("fp8", "int4"):
        if weight_format(smaller).payload_bits < now.payload_bits:
            tries[f"weights {now.name} -> {smaller}"] = replace(request, weight_dtype=smaller)
    if _splits(request, 2 * request.tp):
        tries[f"tp {request.tp} -> {2 * request.tp}"] = replace(request, tp=2 * request.tp)
    left = _left(request)
    gains = (Lever(change, _left(other) - left) for change, other in tries.items())
    return tuple(sorted((g for g in gains if g.freed_bytes > 0), key=lambda g: -g.freed_bytes))


def best_lever(request: PoolRequest) -> str:
    """Sentence on the change that frees most."""
    found = levers(request)
    if not found:
        return "No single change frees memory."
    best = found[0]
    enough = "" if _left(request) + best.freed_bytes > 0 else ", still not enough"
    return f"Frees most: {best.change} (+{best.freed_bytes / GIB:.2f} GiB a card{enough})"


def _left(request: PoolRequest) -> int:
    terms = memory_terms(request)
    return terms[0].num_bytes - sum(term.num_bytes for term in terms[1:])


def _splits(request: PoolRequest, tp: int) -> bool:
    try:
        request.model.check_tp(tp)
    except ValueError:
        return False
    return True
