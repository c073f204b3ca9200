"""Multi-head latent attention at decode: all heads read one latent a token (DeepSeek-V2, 2.1).

The cache holds ``[num_blocks, block_size, latent + rope]`` a layer: the compressed KV and the
rotated key that all heads share. With the up-projections absorbed into the query, attention is
multi-query attention over the latents, whose first ``latent`` numbers are the values, too.
"""

from __future__ import annotations

import torch


def mla_decode(
    query: torch.Tensor,
    cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: torch.Tensor,
    *,
    latent: int,
    scale: float,
) -> torch.Tensor:
    """Attend from the last token of each sequence to all of its latents.

    Parameters
    ----------
    query : [B, num_heads, latent + rope]
        Absorbed part first.
    cache : [num_blocks, block_size, latent + rope]
    block_tables : int32, [B, max_blocks]
    context_lens : int32, [B], >= 1
    latent
        Width of the compressed KV.
    scale
        Of the scores: ``(head_dim + rope) ** -0.5`` of the uncompressed heads.

    Returns
    -------
    [B, num_heads, latent]
    """
    out = torch.empty(*query.shape[:2], latent, dtype=query.dtype, device=query.device)
    block_size = cache.shape[1]
    for row, length in enumerate(context_lens.tolist()):
        num_blocks = -(-length // block_size)
        tokens = cache[block_tables[row, :num_blocks].long()].flatten(0, 1)[:length]
        tokens = tokens.to(query.dtype)
        weights = ((query[row] @ tokens.T).float() * scale).softmax(dim=-1)
        out[row] = weights.to(query.dtype) @ tokens[:, :latent]
    return out


def mla_reference(
    query: torch.Tensor, latents: torch.Tensor, *, latent: int, scale: float
) -> torch.Tensor:
    """One sequence in float64: ``[num_heads, latent + rope]`` over ``[length, latent + rope]``."""
    scores = torch.einsum("hd,kd->hk", query.double(), latents.double()) * scale
    return torch.einsum("hk,kd->hd", scores.softmax(dim=-1), latents[:, :latent].double())
