"""Attention of a prompt chunk over what is before it: chunk c after past p, causal.

A mask over a past makes SDPA compute what it then throws away: all ``c * (p + c)`` pairs. On a CPU
the chunk is therefore cut into rows of ``CPU_ROWS`` queries, each of which sees only what it may.
On CUDA torch's flash attention is told instead that the triangle lies at the lower right.
"""

from __future__ import annotations

from typing import Final

import torch
from torch.nn import functional

CPU_ROWS: Final = 64


def prefill_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attend from the last c of p + c tokens to all up to themselves.

    Parameters
    ----------
    query : [c, num_heads, head_dim]
    key, value : [p + c, num_kv_heads, head_dim]

    Returns
    -------
    [c, num_heads, head_dim], scaled by ``head_dim ** -0.5``.
    """
    chunk, total = query.shape[0], key.shape[0]
    if query.device.type != "cpu" or chunk <= CPU_ROWS:
        return _masked(query, key, value)
    out = torch.empty_like(query)
    for start in range(0, chunk, CPU_ROWS):
        rows = slice(start, min(start + CPU_ROWS, chunk))
        seen = total - chunk + rows.stop
        out[rows] = _masked(query[rows], key[:seen], value[:seen])
    return out


def _masked(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """All rows in one call."""
    chunk, total = query.shape[0], key.shape[0]
    out = functional.scaled_dot_product_attention(
        query.transpose(0, 1).unsqueeze(0),
        key.transpose(0, 1).unsqueeze(0),
        value.transpose(0, 1).unsqueeze(0),
        attn_mask=causal_mask(chunk, total, query.device) if total > chunk > 1 else None,
        is_causal=total == chunk and chunk > 1,
        enable_gqa=query.shape[1] != key.shape[1],
    )
    return out.squeeze(0).transpose(0, 1)


def causal_mask(chunk: int, total: int, device: torch.device) -> torch.Tensor:
    """Mask of the last ``chunk`` of ``total`` tokens: bool, on CUDA torch's own kind of bias."""
    if device.type == "cuda":
        from torch.nn.attention.bias import causal_lower_right  # noqa: PLC0415 - a second

        return causal_lower_right(chunk, total)
    last = torch.arange(total - chunk, total, device=device)
    return torch.arange(total, device=device) <= last.unsqueeze(-1)


def attention_reference(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> torch.Tensor:
    """The same in float64, written out."""
    chunk, num_heads, head_dim = query.shape
    total = key.shape[0]
    group = num_heads // key.shape[1]
    keys = key.double().repeat_interleave(group, dim=1)
    values = value.double().repeat_interleave(group, dim=1)
    scores = torch.einsum("qhd,khd->hqk", query.double(), keys) / head_dim**0.5
    last = torch.arange(total - chunk, total, device=query.device).unsqueeze(-1)
    future = torch.arange(total, device=query.device) > last
    scores = scores.masked_fill(future, float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(dim=-1), values)
