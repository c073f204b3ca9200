"""Mixture of experts: a router, and one grouped GEMM over tokens sorted by expert.

Shapes, with N tokens and E experts of which each token uses k: router ``[E, hidden]``, gate-up
``[E, 2 * intermediate, hidden]``, down ``[E, hidden, intermediate]``. Routing weights are the
softmax over the k chosen logits (Mixtral, Jiang et al. 2024, section 2.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from kvsim.kernels.dense import gated, project, random_weight

if TYPE_CHECKING:
    from kvsim.kernels.shape import DecoderShape


@dataclass(frozen=True, slots=True)
class ExpertWeights:
    """Weights of one layer's experts."""

    router: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


def random_experts(
    shape: DecoderShape, *, device: torch.device, dtype: torch.dtype, rng: torch.Generator
) -> ExpertWeights:
    """Random experts of a mixture."""

    def stack(rows: int, columns: int) -> torch.Tensor:
        made = [
            random_weight(rows, columns, device=device, dtype=dtype, rng=rng)
            for _ in range(shape.num_experts)
        ]
        return torch.stack(made)

    return ExpertWeights(
        router=random_weight(
            shape.num_experts, shape.hidden_size, device=device, dtype=dtype, rng=rng
        ),
        gate_up=stack(2 * shape.intermediate_size, shape.hidden_size),
        down=stack(shape.hidden_size, shape.intermediate_size),
    )


def route(
    x: torch.Tensor, router: torch.Tensor, experts_per_token: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Experts of each token and their shares: int64 and float32, ``[N, k]`` each."""
    logits = project(x, router).float()
    chosen, experts = logits.topk(experts_per_token, dim=-1)
    return experts, chosen.softmax(dim=-1)


def mixture(x: torch.Tensor, weights: ExpertWeights, experts_per_token: int) -> torch.Tensor:
    """Route every token and sum its experts' answers; ``[N, hidden]`` to ``[N, hidden]``.

    Tokens are sorted by expert, so that each expert that somebody chose is read once.
    """
    experts, shares = route(x, weights.router, experts_per_token)
    flat = experts.flatten()
    order = flat.argsort(stable=True)
    tokens = order // experts_per_token
    counts = torch.bincount(flat, minlength=weights.router.shape[0])
    hidden = grouped_gemm(x[tokens], weights.gate_up, counts)
    answers = grouped_gemm(gated(hidden), weights.down, counts)
    shares_sorted = shares.flatten()[order].unsqueeze(-1)
    result = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    result.index_add_(0, tokens, answers.float() * shares_sorted)
    return result.to(x.dtype)


def grouped_gemm(x: torch.Tensor, weights: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Multiply runs of rows, ``counts[e]`` of them for expert e, by ``weights[e]``.

    ``[M, in]`` and ``[E, out, in]`` to ``[M, out]``; one kernel on CUDA in bfloat16 where torch
    has it (``torch._grouped_mm``), else one GEMM an expert that somebody chose.
    """
    if x.is_cuda and x.dtype == torch.bfloat16 and hasattr(torch, "_grouped_mm"):
        ends = counts.cumsum(0).to(torch.int32)
        return torch._grouped_mm(x, weights.transpose(1, 2), offs=ends)
    result = torch.empty(x.shape[0], weights.shape[1], dtype=x.dtype, device=x.device)
    start = 0
    for expert, count in enumerate(counts.tolist()):
        if count:
            result[start : start + count] = project(x[start : start + count], weights[expert])
        start += count
    return result


def mixture_reference(
    x: torch.Tensor, weights: ExpertWeights, experts: torch.Tensor, shares: torch.Tensor
) -> torch.Tensor:
    """The same in float64, token by token, for a given routing."""
    rows = []
    for token in range(x.shape[0]):
        answer = torch.zeros(x.shape[1], dtype=torch.float64, device=x.device)
        for expert, share in zip(experts[token].tolist(), shares[token].double(), strict=True):
            hidden = gated(weights.gate_up[expert].double() @ x[token].double())
            answer += share * (weights.down[expert].double() @ hidden)
        rows.append(answer)
    return torch.stack(rows)
