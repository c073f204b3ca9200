"""SGLang's pool: tokens in pages, no null block, a fraction for weights and KV together.

Source: SGLang 0.5, ``srt/model_executor/model_runner.py`` (``profile_max_num_token``: free memory
after loading less ``(1 - mem_fraction_static)`` of that before, over the bytes of a token, cut to
whole pages) and ``srt/server_args.py`` (default of the fraction: 512 MiB, 1.5 MiB a token of the
prefill chunk, 2 MiB a request of the largest CUDA graph and 128 MiB a rank are kept free, at least
10 GiB on cards above 60 GiB). One page more is allocated for writes of padded tokens; it is not in
the count. Sliding layers have a pool of their own, ``swa_full_tokens_ratio`` = 0.8 of the tokens.
The log writes GB and means GiB.
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
    from fractions import Fraction

    from kvsim.sim.models import LayerGroup, ModelSpec
    from kvsim.sim.models.stages import Stage
    from kvsim.sim.pool.memory_terms import PoolRequest

MIB = 1 << 20
WINDOW_TOKENS_SHARE = (4, 5)
"""``swa_full_tokens_ratio``, as numerator and denominator."""
LARGE_CARD_BYTES = 60 * GIB
KEPT_ON_LARGE_CARDS = 10 * GIB
_BY_MEMORY = ((20, 2048, 8, 8), (35, 2048, 24, 80), (60, 4096, 32, 160), (160, 8192, 256, 512))
"""Below each size in GiB: prefill chunk, largest graph for tp < 4, and for tp >= 4."""
_LARGEST = (16384, 512, 512)


@dataclass(frozen=True, slots=True)
class TokenLayout:
    """Pages of ``block_size`` tokens; windows have a smaller pool beside the full one."""

    block_size: int
    block_bytes: int
    window: int | None = None
    longest: int | None = None

    def blocks_for(self, length: int, step_tokens: int = 1) -> int:
        """Pages of the full pool that a sequence takes, including its share for windows."""
        pages = math.ceil(length / self.block_size)
        if self.window is None:
            return pages
        over, under = WINDOW_TOKENS_SHARE
        kept = min(self.window - 1 + step_tokens, length)
        return max(pages, math.ceil(kept * under / over / self.block_size))

    charged_blocks = blocks_for


def split_sglang(request: PoolRequest) -> Split:
    """Pages of each rank by SGLang's rule. Raises ``ValueError`` for states, which it splits."""
    model = request.model
    if any(group.kind == "state" for group in model.groups):
        raise ValueError(
            f"{model.name} keeps a state per request; SGLang splits memory between states and"
            " tokens by its own ratio, which is not modelled (--engine vllm is)"
        )
    shares = tuple(_share(request, stage) for stage in pipeline_stages(model, request.pp))
    windows = [group.window for group in model.groups if group.window is not None]
    notes: tuple[str, ...] = ("SGLang's log writes GB and means GiB; it shows K and V apart",)
    window = None
    if windows and _has_full(model.groups):
        window = max(windows)
        over, under = WINDOW_TOKENS_SHARE
        notes += (f"sliding layers have a pool of {over / under:g} x the tokens of the full one",)
    layout = TokenLayout(request.block_size, shares[0].block_bytes, window)
    return Split(layout, shares, null_blocks=0, notes=notes)


def default_chunk(total_bytes: int, tp: int) -> tuple[int, int]:
    """``(chunked_prefill_size, cuda_graph_max_bs)`` that SGLang uses for a card by default."""
    for gib, chunk, small, large in _BY_MEMORY:
        if total_bytes < gib * GIB:
            return chunk, small if tp < 4 else large
    chunk, small, large = _LARGEST
    return chunk, small if tp < 4 else large


def _share(request: PoolRequest, stage: Stage) -> RankShare:
    page = math.ceil(request.block_size * _token_bytes(stage.model, request))
    if request.num_blocks is not None:
        kv_bytes = request.num_blocks * page
        formula = f"{request.num_blocks:,} pages x {page:,} B, given"
        terms: tuple[MemoryTerm, ...] = (MemoryTerm("KV", kv_bytes, formula),)
    elif request.kv_memory_bytes is not None:
        kv_bytes = request.kv_memory_bytes
        terms = (MemoryTerm("KV", kv_bytes, "given"),)
    else:
        terms = _terms(replace(request, model=stage.model))
        kv_bytes = kv_left(terms)
    num_blocks = max(kv_bytes, 0) // page
    return RankShare(
        stage.index, stage.first, stage.last, stage.model, terms, kv_bytes, page, num_blocks
    )


def _terms(request: PoolRequest) -> tuple[MemoryTerm, ...]:
    """Usable memory, weights and what is kept free, in vLLM's order of lines."""
    _, weights, _, _, non_torch = memory_terms(request)
    total = request.total_bytes or request.hardware.total_bytes
    before = total - non_torch.num_bytes
    chunk, max_graph = default_chunk(total, request.tp)
    if request.mem_fraction_static is not None:
        kept = int(before * (1 - request.mem_fraction_static))
        formula = f"(1 - mem_fraction_static {request.mem_fraction_static:g}) x free memory"
        reserve = MemoryTerm("kept free", kept, formula)
    elif request.peak_bytes is not None or request.graphs_bytes is not None:
        kept = (request.peak_bytes or 0) + (request.graphs_bytes or 0)
        reserve = MemoryTerm("kept free", kept, "given")
    else:
        kept = (512 + 3 * chunk // 2 + 2 * max_graph + 128 * request.tp * request.pp) * MIB
        formula = f"512 MiB + 1.5 x chunk {chunk} + 2 x graph {max_graph} + 128 a rank"
        if total > LARGE_CARD_BYTES and kept < KEPT_ON_LARGE_CARDS:
            kept, formula = KEPT_ON_LARGE_CARDS, "10 GiB, the least on a card above 60 GiB"
        reserve = MemoryTerm("kept free", kept, formula)
    return (
        MemoryTerm("usable", total, f"{total / GIB:.2f} GiB"),
        weights,
        reserve,
        non_torch,
    )


def _token_bytes(model: ModelSpec, request: PoolRequest) -> Fraction | int:
    """Bytes of a token of the full pool, with the window pool's share of it."""
    name = request.model.kv_dtype(request.kv_dtype)
    over, under = WINDOW_TOKENS_SHARE
    mixed = _has_full(request.model.groups)
    total: Fraction | int = 0
    for group in model.groups:
        size = group.num_kv_layers * group.layer_kv_bytes(name, request.tp)
        total += size * over / under if group.window is not None and mixed else size
    return total


def _has_full(groups: tuple[LayerGroup, ...]) -> bool:
    return any(group.window is None for group in groups)
