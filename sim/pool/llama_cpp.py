"""llama.cpp's cache: every slot's whole context, allocated at start.

Source: llama.cpp, ``src/llama-context.cpp`` (cells of a slot: the context padded to 256),
``src/llama-kv-cache.cpp`` (one K and one V tensor a layer, in the cache type; a latent is stored
once, without V) and ``src/llama-kv-cache-iswa.cpp`` (sliding layers: ``min(context, window +
micro-batch)`` padded to 256). ``--parallel`` slots each have the full ``--max-model-len``, so the
server is started with ``-c slots x context``. No memory fraction, no blocks, no growth: memory is
the same before the first token and after the last. A compute buffer of the micro-batch (512 tokens
x (vocabulary + hidden) x 4 B) comes on top; 258.5 MiB for Llama-3.1-8B, as its log says. Cache
types: ``f16`` by default, ``q8_0`` 34 bytes and ``q4_0`` 18 bytes for 32 values. Whole layers lie
on one card (``--pp``); rows are not split (``--tp``). The embedding is counted on the card, where
llama.cpp leaves it in host memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kvsim.sim.hardware import GIB
from kvsim.sim.models.stages import pipeline_stages
from kvsim.sim.pool.memory_terms import MemoryTerm, kv_left, memory_terms
from kvsim.sim.pool.types import RankShare, Split

if TYPE_CHECKING:
    from kvsim.sim.models import ModelSpec
    from kvsim.sim.models.stages import Stage
    from kvsim.sim.pool.memory_terms import PoolRequest

CELL_PAD = 256
MICRO_BATCH = 512
FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """One slot for each request, as long as the context, whether it is used or not."""

    block_size: int
    block_bytes: int

    @property
    def longest(self) -> int:
        """The context of a slot."""
        return self.block_size

    def blocks_for(self, length: int, step_tokens: int = 1) -> int:
        """One slot, whatever the length."""
        del length, step_tokens
        return 1

    charged_blocks = blocks_for


def split_llama_cpp(request: PoolRequest) -> Split:
    """Slots of each rank; without ``slots`` as many as stay on the card.

    Raises ``ValueError`` for what llama.cpp does not have.
    """
    _refuse(request)
    context = request.model_len
    stages = pipeline_stages(request.model, request.pp)
    shares = tuple(_share(request, stage, context) for stage in stages)
    fits = min(share.num_blocks or 0 for share in shares)
    slots = request.slots or fits
    note = (
        f"llama.cpp allocates {slots} slots x {context:,} tokens at start (-c {slots * context}"
        f" -np {slots}): memory does not climb as it talks; {fits} slots fit on the card"
    )
    return Split(
        SlotLayout(context, shares[0].block_bytes),
        shares,
        null_blocks=0,
        fixed_blocks=request.slots,
        notes=(note,),
    )


def slot_bytes(model: ModelSpec, context: int, kv_dtype: str) -> int:
    """Bytes of one slot of ``context`` tokens: padded cells in every layer that stores."""
    name = model.kv_dtype(kv_dtype)
    total = 0
    for group in model.groups:
        cells = _padded(context)
        if group.window is not None:
            cells = _padded(min(cells, group.window + MICRO_BATCH))
        total += math.ceil(cells * group.num_kv_layers * group.layer_kv_bytes(name))
    return total


def _padded(cells: int) -> int:
    return -(-cells // CELL_PAD) * CELL_PAD


def _refuse(request: PoolRequest) -> None:
    if request.tp > 1:
        raise ValueError(
            f"tp={request.tp}: llama.cpp puts whole layers on each card; use --pp {request.tp}"
        )
    if any(group.kind == "state" for group in request.model.groups):
        raise ValueError(
            f"{request.model.name} keeps a state per request, which llama.cpp stores in its own"
            " format; that is not modelled (--engine vllm is)"
        )


def _share(request: PoolRequest, stage: Stage, context: int) -> RankShare:
    one = slot_bytes(stage.model, context, request.kv_dtype)
    if request.num_blocks is not None:
        kv_bytes = request.num_blocks * one
        formula = f"{request.num_blocks:,} slots x {one:,} B, given"
        terms: tuple[MemoryTerm, ...] = (MemoryTerm("KV", kv_bytes, formula),)
    elif request.kv_memory_bytes is not None:
        kv_bytes = request.kv_memory_bytes
        terms = (MemoryTerm("KV", kv_bytes, "given"),)
    else:
        terms = _terms(replace(request, model=stage.model))
        kv_bytes = kv_left(terms)
    return RankShare(
        stage.index,
        stage.first,
        stage.last,
        stage.model,
        terms,
        kv_bytes,
        one,
        max(kv_bytes, 0) // one if one else None,
    )


def _terms(request: PoolRequest) -> tuple[MemoryTerm, ...]:
    _, weights, _, _, non_torch = memory_terms(request)
    total = request.total_bytes or request.hardware.total_bytes
    model = request.model
    compute = MICRO_BATCH * (model.vocab_size + model.hidden_size) * FLOAT_BYTES
    buffer = MemoryTerm(
        "compute buffer",
        compute if request.peak_bytes is None else request.peak_bytes,
        f"{MICRO_BATCH} tokens x ({model.vocab_size:,} + {model.hidden_size:,}) x {FLOAT_BYTES} B"
        if request.peak_bytes is None
        else "given",
        assumed=request.peak_bytes is None,
    )
    usable = MemoryTerm("usable", total, f"{total / GIB:.2f} GiB, there is no memory fraction")
    return (usable, weights, buffer, replace(non_torch, name="driver"))
