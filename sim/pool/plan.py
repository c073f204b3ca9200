"""The KV pool that a card leaves, by the rule of a named engine.

``total x utilisation - weights - activation peak - graphs - non-torch = KV``, cut into blocks. The
terms are in :mod:`kvsim.sim.pool.memory_terms`; each engine's rule is a file of its own, with its
source (:mod:`kvsim.sim.pool.vllm`, :mod:`kvsim.sim.pool.sglang`, :mod:`kvsim.sim.pool.llama_cpp`).
``kvsim simulate`` and ``kvsim plan`` both come through :func:`plan`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.sim.hardware import GIB
from kvsim.sim.pool.levers import best_lever
from kvsim.sim.pool.llama_cpp import split_llama_cpp
from kvsim.sim.pool.memory_terms import PoolRequest
from kvsim.sim.pool.sglang import split_sglang
from kvsim.sim.pool.types import Pool, PoolTooSmallError, RankShare, Split
from kvsim.sim.pool.vllm import split_vllm
from kvsim.traces.common.names import unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.sim.hardware import HardwareSpec
    from kvsim.sim.models import ModelSpec

__all__ = ["ENGINES", "Pool", "PoolTooSmallError", "RankShare", "plan", "plan_pool"]

ENGINES: Final[dict[str, Callable[[PoolRequest], Split]]] = {
    "vllm": split_vllm,
    "sglang": split_sglang,
    "llama.cpp": split_llama_cpp,
}
"""Rules by engine."""


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
    """Blocks that one rank of ``tp`` has for KV under vLLM.

    If ``num_blocks`` or ``kv_memory_bytes`` is given, it is used unchanged, and the size of the
    card is not checked. Any other ``*_bytes`` replaces its term. Raises ``ValueError`` if no memory
    is left, with the numbers and the single change that frees most.
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
    """Pool of the binding rank by the rule of ``request.engine``.

    Raises
    ------
    PoolTooSmallError
        If less than one block is left (vLLM: less than the null block and one more).
    ValueError
        If a number is not possible, or the engine does not support an option.
    """
    check(request)
    split = ENGINES[request.engine](request)
    binding = split.binding
    fits = binding.num_blocks or 0
    num_blocks = fits if split.fixed_blocks is None else split.fixed_blocks
    needed = split.null_blocks + 1 if split.fixed_blocks is None else split.fixed_blocks
    if fits < needed and request.num_blocks is None:
        raise PoolTooSmallError(_too_small(request, binding, needed), binding)
    return Pool(
        binding.terms,
        binding.kv_bytes,
        num_blocks,
        split.layout,
        given=request.num_blocks is not None or request.kv_memory_bytes is not None,
        engine=request.engine,
        null_blocks=split.null_blocks,
        shares=split.shares,
        binding=binding.index,
        notes=(*_length_note(request), *split.notes),
    )


def _length_note(request: PoolRequest) -> tuple[str, ...]:
    longest = request.model.max_position
    if request.model_len <= longest:
        return ()
    return (
        f"max_model_len {request.model_len:,} is above the {longest:,} tokens that"
        f" {request.model.name} was made for",
    )


def check(request: PoolRequest) -> None:
    """Raise ``ValueError`` with the name of a value that is not possible."""
    if request.engine not in ENGINES:
        raise ValueError(unknown("engine", request.engine, ENGINES))
    request.model.check_tp(request.tp)
    for name in ("gpu_memory_utilization", "mem_fraction_static"):
        fraction = getattr(request, name)
        if fraction is not None and not 0 < fraction <= 1:
            raise ValueError(f"{name}={fraction} is not in (0, 1]")
    for name in (
        "block_size",
        "max_num_batched_tokens",
        "max_num_seqs",
        "num_blocks",
        "kv_memory_bytes",
        "total_bytes",
        "max_model_len",
        "slots",
    ):
        value = getattr(request, name)
        if value is not None and value < 1:
            raise ValueError(f"{name}={value} must be >= 1")
    for name in ("weights_bytes", "peak_bytes", "graphs_bytes", "non_torch_bytes", "swap_bytes"):
        value = getattr(request, name)
        if value is not None and value < 0:
            raise ValueError(f"{name}={value} must be >= 0")


def _count(needed: int) -> str:
    return "1 block needs" if needed == 1 else f"{needed} blocks need"


def _too_small(request: PoolRequest, binding: RankShare, needed: int) -> str:
    if request.kv_memory_bytes is not None:
        null = "; an engine needs the null block and one more" if request.engine == "vllm" else ""
        return (
            f"kv_memory_bytes={request.kv_memory_bytes} holds {binding.num_blocks} blocks of"
            f" {binding.block_bytes} B, {needed} are needed{null}"
        )
    usable, *spent = binding.terms
    parts = ", ".join(f"{term.name} {term.num_bytes / GIB:.2f}" for term in spent)
    ranks = f"tp {request.tp}" + (f", pp {request.pp}" if request.pp > 1 else "")
    return (
        f"{request.model.name} leaves {binding.kv_bytes / GIB:.2f} GiB for KV on"
        f" {request.hardware.name} at {ranks}: usable {usable.num_bytes / GIB:.2f} GiB"
        f" ({usable.formula}) less {parts}; {_count(needed)}"
        f" {needed * binding.block_bytes / GIB:.3f} GiB. {best_lever(request, ENGINES)}"
    )
