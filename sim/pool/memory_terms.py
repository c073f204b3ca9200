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
"""Bytes of sampler buffers for each logit.

Four vLLM start-up logs on an H100 (79.18 GiB, max_num_seqs 1024, 8192 tokens) show 4.76 GiB
(Llama-3.1-8B), 5.56 (Qwen3-0.6B), 7.38 (gpt-oss-20b) and 4.84 (70B, tp 2). This constant and
``HIDDEN_BYTES`` give all four within 0.5 %, and 1.25 GiB for an older log's 1.26 GiB at
max_num_seqs 256.
"""
HIDDEN_BYTES = 2.5
"""Bytes that sampling keeps for each token and hidden unit: the hidden states and a copy."""
ACTIVATION_BYTES = 2
NON_TORCH_GIB = 0.13
NON_TORCH_TP_GIB = 0.42
"""Additional memory with a communicator; a log with tp 2 shows 0.55 GiB."""
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
    """Inputs of a pool plan; ``None`` = compute the value."""

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
    engine: str = "vllm"
    """Engine of the rule that splits the memory; see :data:`kvsim.sim.pool.plan.ENGINES`."""
    pp: int = 1
    max_model_len: int | None = None
    """Longest request; ``None`` = the model's."""
    batches_in_flight: int = 1
    """Steps in flight: 2 with asynchronous scheduling; windows keep the tokens of both."""
    mem_fraction_static: float | None = None
    """SGLang only; ``None`` = its default for the card."""
    slots: int | None = None
    """llama.cpp only: parallel slots; ``None`` = as many as fit."""
    swap_bytes: int = 0
    """Host memory for swapped blocks, a rank."""

    @property
    def model_len(self) -> int:
        """Tokens of the longest request that is to be served."""
        return self.max_model_len or self.model.max_position

    @property
    def step_tokens(self) -> int:
        """Tokens in flight, which a window keeps beside its own."""
        return self.batches_in_flight * self.max_num_batched_tokens


def memory_terms(request: PoolRequest, *, samples: bool = True) -> tuple[MemoryTerm, ...]:
    """List the memory that the engine may use, and its uses before KV, each with its formula.

    ``samples``: this rank samples tokens (the last pipeline rank does), so it has sampler buffers.
    """
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
    copies = " and copies" if tp > 1 else ""
    formula = f"{request.model.num_params:,} parameters / tp {tp}{copies}"
    spent = (
        MemoryTerm("weights", weights, formula),
        activation_peak(request, samples=samples),
        *_fixed_terms(hardware.kind == "gpu", tp * request.pp),
    )
    return (usable, *(_or_given(term, given[term.name]) for term in spent))


def kv_left(terms: tuple[MemoryTerm, ...]) -> int:
    """Bytes that remain for KV; below 0 if the other terms exceed the usable memory."""
    return terms[0].num_bytes - sum(term.num_bytes for term in terms[1:])


def _or_given(term: MemoryTerm, num_bytes: int | None) -> MemoryTerm:
    return term if num_bytes is None else MemoryTerm(term.name, num_bytes, "given")


def _fixed_terms(on_gpu: bool, num_ranks: int) -> tuple[MemoryTerm, MemoryTerm]:
    if not on_gpu:
        return MemoryTerm("graphs", 0, "none off a GPU"), MemoryTerm("non-torch", 0, "none counted")
    other = NON_TORCH_GIB + (NON_TORCH_TP_GIB if num_ranks > 1 else 0)
    more = f" + {NON_TORCH_TP_GIB} for several ranks" if num_ranks > 1 else ""
    formula = f"{NON_TORCH_GIB} GiB{more}"
    return (
        MemoryTerm("graphs", int(GRAPHS_GIB * GIB), f"{GRAPHS_GIB} GiB", assumed=True),
        MemoryTerm("non-torch", int(other * GIB), formula, assumed=True),
    )


def activation_peak(request: PoolRequest, *, samples: bool = True) -> MemoryTerm:
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
    if samples and sampler >= layers:
        formula = (
            f"{LOGIT_BYTES} B x {request.max_num_seqs:,} requests x {model.vocab_size:,} vocabulary"
            f" + {HIDDEN_BYTES} B x {tokens:,} tokens x {model.hidden_size:,} hidden"
        )
        return MemoryTerm("activation peak", int(sampler), formula, assumed=True)
    formula = (
        f"{ACTIVATION_BYTES} B x {tokens:,} tokens x {width:,} values of the widest layer part"
    )
    return MemoryTerm("activation peak", int(layers), formula, assumed=True)
