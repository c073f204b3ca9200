"""The KV pool that a card leaves, in whole blocks.

``total x utilisation - weights - activation peak - graphs - non-torch = KV``, cut into blocks as
vLLM 0.32.0 does at start-up (``v1/worker/gpu_worker.py``, ``v1/core/kv_cache_utils.py``). The terms
are in :mod:`kvsim.sim.memory_terms`, the blocks in :mod:`kvsim.sim.kv_layout`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvsim.sim.hardware import GIB
from kvsim.sim.kv_layout import BlockLayout, block_layout
from kvsim.sim.memory_terms import MemoryTerm, PoolRequest, memory_terms
from kvsim.sim.pool_levers import best_lever

if TYPE_CHECKING:
    from kvsim.sim.hardware import HardwareSpec
    from kvsim.sim.models import ModelSpec


@dataclass(frozen=True, slots=True)
class Pool:
    """The blocks of one rank.

    ``num_blocks`` counts the null block, as the engine's log does; ``remainder_bytes`` are KV bytes
    too few for a block more. The terms add up to ``total x utilisation`` unless the pool was given.
    """

    terms: tuple[MemoryTerm, ...]
    kv_bytes: int
    num_blocks: int
    layout: BlockLayout
    given: bool = False
    """``num_blocks`` or the KV memory was given, so the card was not asked."""

    @property
    def block_size(self) -> int:
        """Tokens in a block (hybrids raise it so that a state fits)."""
        return self.layout.block_size

    @property
    def block_bytes(self) -> int:
        """Bytes of a block on one rank, all layers of its group."""
        return self.layout.block_bytes

    @property
    def remainder_bytes(self) -> int:
        """KV bytes that no block uses."""
        return self.kv_bytes - self.num_blocks * self.block_bytes

    @property
    def pool_tokens(self) -> int:
        """Blocks times block size, as the engine's log prints it for one full-attention group."""
        return self.num_blocks * self.block_size

    def max_concurrency(self, length: int, step_tokens: int = 1) -> float:
        """Count requests of ``length`` tokens at once, as the engine's log prints it.

        A floor, not a limit: blocks are given as a request grows. ``step_tokens`` is the token
        budget, which windows keep beside their own tokens.
        """
        return self.num_blocks / self.layout.charged_blocks(length, step_tokens)

    def longest_request(self, limit: int, step_tokens: int = 1) -> int:
        """Tokens of the longest lone request, at most ``limit``; the null block is not usable."""
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self.layout.blocks_for(middle, step_tokens) <= self.num_blocks - 1:
                low = middle
            else:
                high = middle - 1
        return low


def plan_pool(
    model: ModelSpec,
    hardware: HardwareSpec,
    *,
    block_size: int = 16,
    max_num_batched_tokens: int = 2048,
    max_num_seqs: int = 256,
    gpu_memory_utilization: float = 0.9,
    weight_dtype: str = "auto",
    kv_dtype: str = "auto",
    tp: int = 1,
    num_blocks: int | None = None,
    kv_memory_bytes: int | None = None,
    total_bytes: int | None = None,
    weights_bytes: int | None = None,
    peak_bytes: int | None = None,
    graphs_bytes: int | None = None,
    non_torch_bytes: int | None = None,
) -> Pool:
    """Blocks that one rank of ``tp`` has for KV.

    ``num_blocks`` or ``kv_memory_bytes`` given: taken as they are, the card refuses nothing.
    Any other ``*_bytes`` given replaces that term. Raises ``ValueError`` when nothing is left, with
    the numbers and the single change that frees most.
    """
    request = PoolRequest(
        model=model,
        hardware=hardware,
        block_size=block_size,
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        gpu_memory_utilization=gpu_memory_utilization,
        weight_dtype=weight_dtype,
        kv_dtype=kv_dtype,
        tp=tp,
        num_blocks=num_blocks,
        kv_memory_bytes=kv_memory_bytes,
        total_bytes=total_bytes,
        weights_bytes=weights_bytes,
        peak_bytes=peak_bytes,
        graphs_bytes=graphs_bytes,
        non_torch_bytes=non_torch_bytes,
    )
    return plan(request)


def plan(request: PoolRequest) -> Pool:
    """Like :func:`plan_pool` with the arguments in one value."""
    _check(request)
    layout = block_layout(request.model, request.block_size, request.kv_dtype, request.tp)
    if request.num_blocks is not None or request.kv_memory_bytes is not None:
        return _given_pool(request, layout)
    terms = memory_terms(request)
    kv_bytes = terms[0].num_bytes - sum(term.num_bytes for term in terms[1:])
    num_blocks = kv_bytes // layout.block_bytes
    if num_blocks < 2:
        raise ValueError(_nothing_fits(request, kv_bytes, layout))
    return Pool(terms, kv_bytes, num_blocks, layout)


def _check(request: PoolRequest) -> None:
    request.model.check_tp(request.tp)
    utilization = request.gpu_memory_utilization
    if not 0 < utilization <= 1:
        raise ValueError(f"gpu_memory_utilization={utilization} is not in (0, 1]")
    positive = {
        "block_size": request.block_size,
        "max_num_batched_tokens": request.max_num_batched_tokens,
        "max_num_seqs": request.max_num_seqs,
        "num_blocks": request.num_blocks,
        "kv_memory_bytes": request.kv_memory_bytes,
        "total_bytes": request.total_bytes,
    }
    for name, value in positive.items():
        if value is not None and value < 1:
            raise ValueError(f"{name}={value} must be >= 1")
    for name in ("weights_bytes", "peak_bytes", "graphs_bytes", "non_torch_bytes"):
        value = getattr(request, name)
        if value is not None and value < 0:
            raise ValueError(f"{name}={value} must be >= 0")


def _given_pool(request: PoolRequest, layout: BlockLayout) -> Pool:
    if request.num_blocks is not None:
        num_blocks, kv_bytes = request.num_blocks, request.num_blocks * layout.block_bytes
        formula = f"{num_blocks} blocks x {layout.block_bytes} B, given"
    else:
        kv_bytes = request.kv_memory_bytes or 0
        num_blocks, formula = kv_bytes // layout.block_bytes, "given"
        if num_blocks < 2:
            raise ValueError(
                f"kv_memory_bytes={kv_bytes} holds {num_blocks} blocks of {layout.block_bytes} B;"
                " an engine needs the null block and one more"
            )
    return Pool((MemoryTerm("KV", kv_bytes, formula),), kv_bytes, num_blocks, layout, given=True)


def _nothing_fits(request: PoolRequest, kv_bytes: int, layout: BlockLayout) -> str:
    spent = ", ".join(
        f"{term.name} {term.num_bytes / GIB:.2f}" for term in memory_terms(request)[1:]
    )
    usable = memory_terms(request)[0]
    return (
        f"{request.model.name} leaves {kv_bytes / GIB:.2f} GiB for KV on {request.hardware.name}"
        f" at tp {request.tp}: usable {usable.num_bytes / GIB:.2f} GiB ({usable.formula}) less"
        f" {spent}; two blocks need {2 * layout.block_bytes / GIB:.3f} GiB. {best_lever(request)}"
    )
