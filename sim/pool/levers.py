"""The single change that frees most KV memory, for messages and ``kvsim plan``.

A change is evaluated by the bytes that a rank has beyond one request of the longest length. So more
memory for KV counts as much as a request that needs less.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvsim.sim.documents.plan import Lever
from kvsim.sim.hardware import GIB
from kvsim.sim.models.dtypes import kv_format, weight_format

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kvsim.sim.pool.memory_terms import PoolRequest
    from kvsim.sim.pool.types import Split

    Rules = Mapping[str, Callable[[PoolRequest], Split]]

HIGH_FRACTION = 0.95
FEW_SEATS = 64
FEW_TOKENS = 2048


def surplus(request: PoolRequest, rules: Rules) -> int:
    """KV bytes of the tightest rank beyond one request of the longest length.

    Beyond one block where ``max_model_len`` is open.
    """
    split = rules[request.engine](request)
    length = 1 if request.max_model_len is None else request.max_model_len
    needed = split.layout.blocks_for(length, request.step_tokens) + split.null_blocks
    if split.fixed_blocks is not None:
        needed = split.fixed_blocks
    return min(share.kv_bytes - needed * share.block_bytes for share in split.shares)


def levers(request: PoolRequest, rules: Rules) -> tuple[Lever, ...]:
    """Single changes that free KV memory, best first; terms given by hand do not change."""
    now = surplus(request, rules)
    found = []
    given = request.num_blocks is not None  # then neither card nor formats change what fits
    tries = () if given else (*_tries(request), *_more_ranks(request, rules))
    for change, other in (*tries, *_shorter(request, rules)):
        try:
            then = surplus(other, rules)
        except ValueError:
            continue
        if then > now:
            found.append(Lever(change=change, freed_bytes=then - now, enough=then >= 0))
    return tuple(sorted(found, key=lambda lever: -lever.freed_bytes))


def best_lever(request: PoolRequest, rules: Rules) -> str:
    """Return a sentence about the change that frees most."""
    found = levers(request, rules)
    if not found:
        return "No single change frees memory."
    best = found[0]
    what = "" if request.max_model_len is None else f" for {request.max_model_len:,} tokens"
    enough = "" if best.enough else f", still not enough{what}"
    return f"Frees most: {best.change} (+{best.freed_bytes / GIB:.2f} GiB a card{enough})"


def _tries(request: PoolRequest) -> Iterator[tuple[str, PoolRequest]]:
    """Yield each single change, with the name of its option."""
    if request.engine == "vllm":
        was = request.gpu_memory_utilization
        yield (
            f"utilization {was:g} -> {HIGH_FRACTION}",
            replace(request, gpu_memory_utilization=max(was, HIGH_FRACTION)),
        )
        max_num_seqs, tokens = request.max_num_seqs, request.max_num_batched_tokens
        yield (
            f"max_num_seqs {max_num_seqs} -> {FEW_SEATS}",
            replace(request, max_num_seqs=min(max_num_seqs, FEW_SEATS)),
        )
        yield (
            f"max_num_batched_tokens {tokens} -> {FEW_TOKENS}",
            replace(request, max_num_batched_tokens=min(tokens, FEW_TOKENS)),
        )
    if request.engine == "sglang":
        yield (
            f"mem_fraction_static -> {HIGH_FRACTION}",
            replace(request, mem_fraction_static=HIGH_FRACTION),
        )
    yield from _smaller_formats(request)
    if request.engine == "llama.cpp":
        yield f"pp {request.pp} -> {2 * request.pp}", replace(request, pp=2 * request.pp)
        if request.slots is not None and request.slots > 1:
            yield f"slots {request.slots} -> 1", replace(request, slots=1)


def _more_ranks(request: PoolRequest, rules: Rules) -> Iterator[tuple[str, PoolRequest]]:
    """Yield the smallest of 2, 4 and 8 times the ranks that is enough; else twice the ranks."""
    if request.engine == "llama.cpp":
        return
    counts = [times * request.tp for times in (2, 4, 8) if _splits(request, times * request.tp)]
    others = [replace(request, tp=count) for count in counts]
    for other in ([one for one in others if _is_enough(one, rules)] or others)[:1]:
        yield f"tp {request.tp} -> {other.tp}", other


def _is_enough(request: PoolRequest, rules: Rules) -> bool:
    try:
        return surplus(request, rules) >= 0
    except ValueError:
        return False


def longest_length(request: PoolRequest, rules: Rules) -> int:
    """Longest length in tokens, up to ``max_model_len``, of which one request fits; 0 = none."""
    low, high = 0, request.model_len
    while low < high:
        middle = (low + high + 1) // 2
        if surplus(replace(request, max_model_len=middle), rules) >= 0:
            low = middle
        else:
            high = middle - 1
    return low


def _shorter(request: PoolRequest, rules: Rules) -> Iterator[tuple[str, PoolRequest]]:
    """Yield the longest length of which one request fits."""
    if request.max_model_len is None:
        return
    longest = longest_length(request, rules)
    if longest:
        change = f"max_model_len {request.max_model_len} -> {longest}"
        yield change, replace(request, max_model_len=longest)


def _smaller_formats(request: PoolRequest) -> Iterator[tuple[str, PoolRequest]]:
    model = request.model
    chosen = model.weight_dtype or model.dtype
    weights = weight_format(chosen if request.weight_dtype == "auto" else request.weight_dtype)
    for name in ("fp8", "int4"):
        if weight_format(name).payload_bits < weights.payload_bits:
            yield f"weights {weights.name} -> {name}", replace(request, weight_dtype=name)
    kv = kv_format(model.kv_dtype(request.kv_dtype))
    smaller = "q8_0" if request.engine == "llama.cpp" else "fp8"
    if kv_format(smaller).payload_bits < kv.payload_bits:
        yield f"KV dtype {kv.name} -> {smaller}", replace(request, kv_dtype=smaller)


def _splits(request: PoolRequest, tp: int) -> bool:
    try:
        request.model.check_tp(tp)
    except ValueError:
        return False
    return True
