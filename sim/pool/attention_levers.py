"""The effect of each lever on KV memory: one model and card, one change at a time.

Rows of ``kvsim plan --levers``. The weights stay those of the model (same size class), so that only
the cache changes: heads (all, 8, one, a latent of 512 + 64 as in DeepSeek), the KV format, windows
(five of six layers over 1,024 tokens as in Gemma 3; all over 4,096 as in Mistral 7B v0.1) and a cap
on the context. A decode step reads the whole cache of a request: its bytes over the datasheet's
bandwidth are the least it can cost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kvsim.sim.documents.levers import LeverRow
from kvsim.sim.models.layers import KVShape
from kvsim.sim.models.reshape import full_heads, reshape
from kvsim.sim.pool.plan import PoolTooSmallError, plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kvsim.sim.models import ModelSpec
    from kvsim.sim.pool.memory_terms import PoolRequest

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
