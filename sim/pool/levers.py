"""Which single change frees most KV memory, for messages and ``kvsim plan``.

A change is judged by the bytes that a rank has beyond one request of the longest length: more
memory for KV counts as much as a request that needs less.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kvsim.sim.documents.levers import LeverRow
from kvsim.sim.documents.plan import Lever
from kvsim.sim.hardware import GIB
from kvsim.sim.models.dtypes import kv_format, weight_format
from kvsim.sim.models.layers import KVShape
from kvsim.sim.models.reshape import full_heads, reshape
from kvsim.sim.pool.plan import PoolTooSmallError, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from kvsim.sim.pool.terms import PoolRequest
    from kvsim.sim.pool.types import Split

    Rules = Mapping[str, Callable[[PoolRequest], Split]]
    from collections.abc import Callable

    from kvsim.sim.models import ModelSpec


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
    """Single changes that free KV memory, best first; terms given by hand do not move."""
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
    """Sentence on the change that frees most."""
    found = levers(request, rules)
    if not found:
        return "No single change frees memory."
    best = found[0]
    what = "" if request.max_model_len is None else f" for {request.max_model_len:,} tokens"
    enough = "" if best.enough else f", still not enough{what}"
    return f"Frees most: {best.change} (+{best.freed_bytes / GIB:.2f} GiB a card{enough})"


def _tries(request: PoolRequest) -> Iterator[tuple[str, PoolRequest]]:
    """Each change by itself, named as the option that makes it."""
    if request.engine == "vllm":
        was = request.gpu_memory_utilization
        yield (
            f"utilization {was:g} -> {HIGH_FRACTION}",
            replace(request, gpu_memory_utilization=max(was, HIGH_FRACTION)),
        )
        seats, tokens = request.max_num_seqs, request.max_num_batched_tokens
        yield (
            f"max_num_seqs {seats} -> {FEW_SEATS}",
            replace(request, max_num_seqs=min(seats, FEW_SEATS)),
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
    """Yield the least of 2, 4 and 8 times the ranks that is enough; twice as many where none is."""
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


LENGTHS: Final = (2048, 8192, 32_768, 131_072)
READ_AT: Final = 32_768
"""Length at which factors and read times are given."""
GROUPED_HEADS: Final = 8
LATENT_VALUES: Final = 512 + 64
CAP_TOKENS: Final = 8192


def lever_rows(request: PoolRequest) -> tuple[LeverRow, ...]:
    """All rows, sections in order. Raises ``ValueError`` where the model does not fit the card."""
    weights, memory = request.weights_bytes, request.kv_memory_bytes
    if request.num_blocks is not None:
        memory = plan(request).kv_bytes  # the same bytes for every row, not as many blocks
    if weights is None and request.pp == 1:
        weights = request.model.weights_bytes(request.weight_dtype, request.tp)
    fixed = replace(
        request,
        num_blocks=None,
        kv_memory_bytes=memory,
        weights_bytes=weights,
        max_model_len=max(LENGTHS),
        slots=None,
    )
    rows: list[LeverRow] = []
    first: dict[str, LeverRow] = {}
    for section, name, other, cap in _settings(fixed):
        row = _row(section, name, other, cap)
        base = first.setdefault(section, row)
        rows.append(replace(row, factor=base.request_bytes / row.request_bytes))
    return tuple(rows)


def _row(section: str, name: str, request: PoolRequest, cap: int | None) -> LeverRow:
    def kept(tokens: int) -> int:
        return tokens if cap is None else min(tokens, cap)

    requests, model = {}, request.model
    for tokens in LENGTHS:
        try:
            pool = plan(replace(request, max_model_len=kept(tokens)))
        except PoolTooSmallError as error:
            requests[tokens], model = 0, error.share.model
        else:
            requests[tokens] = pool.requests_of(kept(tokens))
            model = pool.shares[pool.binding].model
    dtype, tp = request.kv_dtype, request.tp
    size = model.kv_bytes(kept(READ_AT), dtype, tp)
    return LeverRow(
        section=section,
        name=name,
        bytes_per_token=model.kv_bytes_per_token(dtype, tp),
        requests=requests,
        request_bytes=size,
        read_s=size / request.hardware.bandwidth_bytes_per_s,
        factor=1.0,
    )


def _settings(request: PoolRequest) -> Iterator[tuple[str, str, PoolRequest, int | None]]:
    """``(section, name, request, cap)`` of each row."""
    model, own = request.model, request.model.kv_dtype(request.kv_dtype)
    for name, change in _head_changes(model):
        yield "attention", name, replace(request, model=reshape(model, change)), None
    for dtype in dict.fromkeys((own, "fp8", "int4")):
        yield "KV format", dtype, replace(request, kv_dtype=dtype), None
    yield "window", "every layer full", replace(request, model=reshape(model, _full)), None
    if any(group.window is not None for group in model.groups):
        yield "window", "as configured", request, None
    yield "window", "5 of 6 over 1,024", replace(request, model=reshape(model, _five_of_six)), None
    yield "window", "all over 4,096", replace(request, model=reshape(model, _all_slide)), None
    yield "context", "no cap", request, None
    yield "context", f"cap at {CAP_TOKENS:,}", request, CAP_TOKENS


def grouped_heads(model: ModelSpec) -> int:
    """KV heads of the model's grouped attention, else of one as models of today have it."""
    return model.num_kv_heads if 1 < model.num_kv_heads < model.num_heads else GROUPED_HEADS


def _head_changes(model: ModelSpec) -> Iterator[tuple[str, Callable[[KVShape, int], KVShape]]]:
    def latent(shape: KVShape, _index: int) -> KVShape:
        return KVShape("mla", shape.num_heads, 1, LATENT_VALUES, 0)

    grouped = grouped_heads(model)
    yield f"MHA, {model.num_heads} KV heads", full_heads(model, model.num_heads)
    if grouped < model.num_heads:
        yield f"GQA, {grouped} KV heads", full_heads(model, grouped)
    yield "MQA, 1 KV head", full_heads(model, 1)
    yield f"MLA, {LATENT_VALUES} values", latent


def _full(shape: KVShape, _index: int) -> KVShape:
    return shape._replace(kind="mla" if shape.kind == "mla" else "full", window=None)


def _five_of_six(shape: KVShape, index: int) -> KVShape:
    return _full(shape, index) if index % 6 == 5 else shape._replace(kind="sliding", window=1024)


def _all_slide(shape: KVShape, _index: int) -> KVShape:
    return shape._replace(kind="sliding", window=4096)
