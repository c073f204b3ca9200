"""The result of ``kvsim plan``.

A figure is ``None`` if it is undefined because no block fits. Bytes are those of the binding rank;
``kv_bytes_per_token.total`` is the sum over all ranks, copies included.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from kvsim.sim.documents.plan import Fit, Group, Plan, Rank, Tables, Term, TokenBytes
from kvsim.sim.models.dtypes import kv_format
from kvsim.sim.pool.layout import BlockLayout
from kvsim.sim.pool.levers import levers, longest_length
from kvsim.sim.pool.plan import ENGINES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kvsim.sim.documents.plan import LogFigure, SwapCost
    from kvsim.sim.models import LayerGroup, ModelSpec
    from kvsim.sim.pool.memory_terms import MemoryTerm, PoolRequest
    from kvsim.sim.pool.plan import Pool, PoolTooSmallError


def plan_document(
    request: PoolRequest,
    pool: Pool,
    lengths: Mapping[str, int] | None = None,
    *,
    swap: SwapCost | None = None,
    log: Sequence[LogFigure] = (),
    notes: Sequence[str] = (),
) -> Plan:
    """All figures of a plan; ``lengths`` are further request lengths in tokens, by name."""
    share = pool.shares[pool.binding]
    model, length = share.model, request.model_len
    longest = longest_that_fits(request, pool)
    kv_dtype = request.model.kv_dtype(request.kv_dtype)
    asked = {"worst_length": length, **(lengths or {})}
    return Plan(
        model=request.model.name,
        hardware=request.hardware.name,
        engine=request.engine,
        tp=request.tp,
        pp=request.pp,
        binding_rank=pool.binding_rank(),
        max_model_len=length,
        kv_dtype=kv_dtype,
        kv_bytes_per_token=bytes_per_token(request, model),
        kv_bytes_fixed_per_request=model.kv_bytes_fixed_per_request(request.tp),
        groups=[group_row(group, request) for group in request.model.groups],
        num_blocks=pool.num_blocks,
        null_blocks=pool.null_blocks,
        tables=tables_of(pool),
        block_size=pool.block_size,
        block_bytes=pool.block_bytes,
        pool_tokens=pool.pool_tokens,
        kv_pool_bytes=pool.kv_bytes,
        max_concurrency=pool.max_concurrency(length, request.step_tokens),
        kv_bytes_per_request=model.kv_bytes(length, kv_dtype, request.tp),
        requests={
            name: Fit(tokens=tokens, requests=pool.requests_of(tokens) if tokens <= longest else 0)
            for name, tokens in asked.items()
        },
        max_num_seqs=request.max_num_seqs,
        max_num_batched_tokens=request.max_num_batched_tokens,
        step_tokens=request.step_tokens,
        max_model_len_that_fits=longest,
        fits=longest >= length,
        cpu_blocks=request.swap_bytes // pool.block_bytes,
        weights_bytes=weights_of(request, model),
        terms=terms_by_name(pool.terms, pool.kv_bytes),
        ranks=ranks_of(pool) if request.pp > 1 else [],
        levers=[] if longest >= length else [*levers(request, ENGINES)],
        swap=swap,
        log=[*log],
        notes=[*request.model.notices, *pool.notes, *notes],
        error=None,
    )


def too_small_document(
    request: PoolRequest, error: PoolTooSmallError, notes: Sequence[str] = ()
) -> Plan:
    """Figures that are valid although no block fits: memory, bytes of a token and a request."""
    share, tp = error.share, request.tp
    return Plan(
        model=request.model.name,
        hardware=request.hardware.name,
        engine=request.engine,
        tp=tp,
        pp=request.pp,
        binding_rank=None,
        max_model_len=request.model_len,
        kv_dtype=request.model.kv_dtype(request.kv_dtype),
        kv_bytes_per_token=bytes_per_token(request, share.model),
        kv_bytes_fixed_per_request=share.model.kv_bytes_fixed_per_request(tp),
        groups=[group_row(group, request) for group in request.model.groups],
        num_blocks=0,
        null_blocks=None,
        tables=None,
        block_size=None,
        block_bytes=share.block_bytes,
        pool_tokens=0,
        kv_pool_bytes=share.kv_bytes,
        max_concurrency=0.0,
        kv_bytes_per_request=share.model.kv_bytes(request.model_len, request.kv_dtype, tp),
        requests={"worst_length": Fit(tokens=request.model_len, requests=0)},
        max_num_seqs=request.max_num_seqs,
        max_num_batched_tokens=request.max_num_batched_tokens,
        step_tokens=request.step_tokens,
        max_model_len_that_fits=0,
        fits=False,
        cpu_blocks=request.swap_bytes // share.block_bytes,
        weights_bytes=weights_of(request, share.model),
        terms=terms_by_name(share.terms, share.kv_bytes),
        ranks=[],
        levers=[*levers(request, ENGINES)],
        swap=None,
        log=[],
        notes=[*request.model.notices, *notes],
        error=str(error),
    )


def bytes_per_token(request: PoolRequest, on_rank: ModelSpec) -> TokenBytes:
    """Bytes a token while no window is full: on the binding rank, and over all ranks."""
    model, name = request.model, request.model.kv_dtype(request.kv_dtype)
    return TokenBytes(
        per_rank=on_rank.kv_bytes_per_token(name, request.tp),
        total=request.tp * model.kv_bytes_per_token(name, request.tp),
        scales_per_rank=on_rank.kv_scale_bytes_per_token(name, request.tp),
        formula=token_formula(on_rank, request),
    )


def token_formula(model: ModelSpec, request: PoolRequest) -> str:
    """Formula of the bytes a token takes on a rank, with the numbers put in."""
    name = request.model.kv_dtype(request.kv_dtype)
    growing = [g for g in model.groups if g.kind != "state" and g.num_kv_layers]
    if not growing:
        return "0: nothing grows with the length"
    mixed = len(growing) > 1
    formula = " + ".join(
        f"{g.num_kv_layers} {g.kind + ' ' if mixed else ''}layers x {_values(g, request.tp)}"
        for g in growing
    )
    latent = " (one latent for all heads)" if growing[0].kind == "mla" else ""
    return f"{f'({formula})' if mixed else formula} x {_value_bytes(name)}{latent}"


def _values(group: LayerGroup, tp: int) -> str:
    """K and V values of one layer and token."""
    if group.kind == "mla":
        return f"{group.head_dim} values"
    heads = f"{group.num_kv_heads} KV head{'s' * (group.num_kv_heads > 1)}"
    if tp > 1:
        heads = f"{group.kv_heads_per_rank(tp)} of {heads}"
    return f"{heads} x ({group.head_dim} + {group.v_head_dim})"


def _value_bytes(name: str) -> str:
    if name == "fp8_ds_mla":
        return "1 B, rope 2 B, an fp32 scale for 128 values"
    form = kv_format(name)
    size = f"{form.payload_bits / 8:g} B"
    if not form.scale_bits:
        return size
    scaled = f"{form.group} values" if form.group else "a head"
    return f"{size} + {form.scale_bits // 8} B of scale for {scaled}"


def group_row(group: LayerGroup, request: PoolRequest) -> Group:
    """One layer group: what it stores a token, and at the longest length."""
    name, tp = request.model.kv_dtype(request.kv_dtype), request.tp
    per_token = math.ceil(group.num_kv_layers * group.layer_kv_bytes(name, tp))
    alone = replace(request.model, groups=(group,))
    return Group(
        kind=group.kind,
        layers=group.num_layers,
        storing_layers=group.num_kv_layers,
        kv_heads=group.num_kv_heads,
        head_dim=group.head_dim,
        v_head_dim=group.v_head_dim,
        window=group.window,
        bytes_per_token=per_token,
        bytes_fixed=alone.kv_bytes_fixed_per_request(tp),
        bytes_at_max_model_len=alone.kv_bytes(request.model_len, name, tp),
    )


def tables_of(pool: Pool) -> Tables | None:
    """Block tables of vLLM: their number, height, and padding layers; ``None`` elsewhere."""
    if not isinstance(pool.layout, BlockLayout):
        return None
    tables = pool.layout.tables
    return Tables(
        count=len(tables.groups),
        state_tables=pool.layout.num_state_tables,
        layers=tables.layers_per_group,
        padding_layers=tables.padding_layers,
        block_sizes=list(pool.layout.block_sizes),
    )


def log_tokens(request: PoolRequest, pool: Pool) -> int:
    """Return vLLM's ``GPU KV cache size``: concurrency times the longest length (since 0.22)."""
    return int(pool.max_concurrency(request.model_len, request.step_tokens) * request.model_len)


def longest_that_fits(request: PoolRequest, pool: Pool) -> int:
    """Longest lone request in tokens, at most what the model (or the option) allows."""
    limit = max(request.model_len, request.model.max_position)
    if pool.layout.longest is None:
        return pool.longest_request(limit, request.step_tokens)
    if pool.given:
        return pool.layout.longest
    return longest_length(replace(request, max_model_len=limit), ENGINES)


def weights_of(request: PoolRequest, model: ModelSpec) -> int:
    """Bytes of the weights on a rank, as given or as computed."""
    if request.weights_bytes is not None:
        return request.weights_bytes
    return model.weights_bytes(request.weight_dtype, request.tp)


def terms_by_name(terms: tuple[MemoryTerm, ...], kv_bytes: int) -> dict[str, Term]:
    """Memory terms by name; ``kv`` is the rest."""
    found = {
        _key(term.name): Term(bytes=term.num_bytes, formula=term.formula, assumed=term.assumed)
        for term in terms
    }
    left = terms[0].formula if len(terms) == 1 else "what is left"
    return found | {"kv": Term(bytes=kv_bytes, formula=left, assumed=False)}


def _key(name: str) -> str:
    return name.lower().replace(" ", "_").replace("-", "_")


def ranks_of(pool: Pool) -> list[Rank]:
    """One entry a pipeline rank."""
    return [
        Rank(
            rank=share.index,
            first_layer=share.first_layer,
            last_layer=share.last_layer,
            weights_bytes=next((t.num_bytes for t in share.terms if t.name == "weights"), None),
            kv_bytes=share.kv_bytes,
            block_bytes=share.block_bytes,
            num_blocks=share.num_blocks,
        )
        for share in pool.shares
    ]
