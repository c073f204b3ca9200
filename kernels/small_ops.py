"""The small kernels of a step, timed as one term: norm, rotary embedding, sampler."""

from __future__ import annotations

import torch


def rms_norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float = 1e-5) -> torch.Tensor:
    """Root-mean-square norm over the last axis, in float32 (Zhang and Sennrich 2019)."""
    wide = x.float()
    scaled = wide * torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + epsilon)
    return (scaled * weight.float()).to(x.dtype)


def rotate(x: torch.Tensor, positions: torch.Tensor, base: float = 10_000.0) -> torch.Tensor:
    """Rotary embedding (Su et al. 2021), halves form: ``[N, heads, head_dim]`` at ``[N]``."""
    half = x.shape[-1] // 2
    places = torch.arange(half, device=x.device, dtype=torch.float32)
    angles = positions.float().unsqueeze(-1) * base ** (-places / half)
    cos, sin = angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)
    first, second = x[..., :half].float(), x[..., half:].float()
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned.to(x.dtype)


def sample(logits: torch.Tensor, temperature: float, rng: torch.Generator | None) -> torch.Tensor:
    """Draw a token a row, int64 ``[B]``; temperature 0 takes the most likely one."""
    if temperature == 0:
        return logits.argmax(dim=-1)
    chances = (logits.float() / temperature).softmax(dim=-1)
    noise = torch.empty_like(chances).exponential_(generator=rng)
    return (chances / noise).argmax(dim=-1)
