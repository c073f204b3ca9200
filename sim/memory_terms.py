"""Where a card's memory goes before KV: weights, activation peak, graphs, non-torch.

Weights are exact; the other three are formulas fitted to start-up logs of vLLM and marked assumed.
Every term can be given instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvsim.sim.hardware import GIB

if TYPE_CHECKING:
    from kvsim.sim.hardware import HardwareSpec
    from kvsim.sim.models import ModelSpec

LOGIT_BYTES = 38.25
"""Sampler buffers a logit: four vLLM start-up logs on an H100 (79.18 GiB, 1024 seats, 8192 tokens)
show 4.76 GiB (Llama-3.1-8B), 5.56 (Qwen3-0.6B), 7.38 (gpt-oss-20b), 4.84 (70B, tp 2); this and
``HIDDEN_BYTES`` give all four within 0.5 %, and 1.25 for an older log's 1.26 GiB at 256 seats."""
HIDDEN_BYTES = 2.5
"""Bytes a token and hidden unit kept while sampling (the hidden states and a copy)."""
ACTIVATION_BYTES = 2
NON_TORCH_GIB = 0.13
NON_TORCH_TP_GIB = 0.42
"""More with a communicator: 0.55 GiB in a log with tp 2."""
GRAPHS_GIB = 0.4
"""CUDA graphs: logs show 0.1 to 1.0 GiB."""


@dataclass(frozen=True, slots=True)
class MemoryTerm:
    """One line of the split of memory on a rank."""

    name: str
    num_bytes: int
    formula: str
    assumed: bool = False


@dataclass(frozen=True, slots=True)
class PoolRequest:
    """What a pool is planned for; ``None`` = work it out."""

    model: ModelSpec
    hardware: HardwareSpec
    block_size: int = 16
    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 256
    gpu_memory_utilization: float = 0.9
    weight_dtype: str = "auto"
    kv_dtype: str = "auto"
    tp: int = 1
    num_blocks: int | None = None
    kv_memory_bytes: int | None = None
    total_bytes: int | None = None
    weights_bytes: int | None = None
    peak_bytes: int | None = None
    graphs_bytes: int | None = None
    non_torch_bytes: int | None = None


def memory_terms(request: PoolRequest) -> tuple[MemoryTerm, ...]:
    """List what the engine may use, then what it spends before KV, each with its formula."""
    hardware, tp = request.hardware, request.tp
    total = hardware.total_bytes if request.total_bytes is None else request.total_bytes
    usable = MemoryTerm(
        "usable",
        int(total * request.gpu_memory_utilization),
        f"{total / GIB:.2f} GiB x {request.gpu_memory_utilization:g}",
    )
    given = {
        "weights": request.weights_bytes,
        "activation peak": request.peak_bytes,
        "graphs": request.graphs_bytes,
        "non-torch": request.non_torch_bytes,
    }
    weights = request.model.weights_bytes(request.weight_dtype, tp)
    formula = f"{request.model.num_params:,} parameters / tp {tp}"
    spent = (
        MemoryTerm("weights", weights, formula),
        activation_peak(request),
        *_fixed_terms(hardware.kind == "gpu", tp),
    )
    return (usable, *(_or_given(term, given[term.name]) for term in spent))


def _or_given(term: MemoryTerm, num_bytes: int | None) -> MemoryTerm:
    return term if num_bytes is None else MemoryTerm(term.name, num_bytes, "given")


def _fixed_terms(on_gpu: bool, tp: int) -> tuple[MemoryTerm, MemoryTerm]:
    if not on_gpu:
        return MemoryTerm("graphs", 0, "none off a GPU"), MemoryTerm("non-torch", 0, "none counted")
    other = NON_TORCH_GIB + (NON_TORCH_TP_GIB if tp > 1 else 0)
    formula = f"{NON_TORCH_GIB} GiB" + (f" + {NON_TORCH_TP_GIB} for tp > 1" if tp > 1 else "")
    return (
        MemoryTerm("graphs", int(GRAPHS_GIB * GIB), f"{GRAPHS_GIB} GiB", assumed=True),
        MemoryTerm("non-torch", int(other * GIB), formula, assumed=True),
    )


def activation_peak(request: PoolRequest) -> MemoryTerm:
    """Estimate the buffers of the profiling step at start-up: the sampler's or the layers'."""
    model, tokens = request.model, request.max_num_batched_tokens
    logits = request.max_num_seqs * model.vocab_size
    sampler = LOGIT_BYTES * logits + HIDDEN_BYTES * tokens * model.hidden_size
    width = 4 * model.hidden_size + 3 * model.intermediate_size // request.tp
    if model.experts is not None:
        expert_width = model.experts.params_each // model.hidden_size
        width = 4 * model.hidden_size + model.experts.per_token * (
            model.hidden_size + expert_width // request.tp
        )
    layers = ACTIVATION_BYTES * tokens * width
    if sampler >= layers:
        formula = (
            f"{LOGIT_BYTES} B x {request.max_num_seqs} seats x {model.vocab_size} vocabulary"
            f" + {HIDDEN_BYTES} B x {tokens} tokens x {model.hidden_size} hidden"
        )
        return MemoryTerm("activation peak", int(sampler), formula, assumed=True)
    formula = f"{ACTIVATION_BYTES} B x {tokens} tokens x {width} values of the widest layer part"
    return MemoryTerm("activation peak", int(layers), formula, assumed=True)
