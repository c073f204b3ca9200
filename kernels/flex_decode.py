"""Decode attention by FlexAttention over contiguous KV: what torch itself offers, to compare with.

Never the kernel of a step: engines page their KV. On CUDA it is compiled, into torch's own kernel
for few queries; elsewhere it is plain torch, good for its answers alone.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, cast

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


def flex_decode(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attend from the last token of each sequence, as ``contiguous_decode`` does, same shapes."""
    out = _attention(query.device.type)(
        query.unsqueeze(2),
        key.to(query.dtype).transpose(1, 2),
        value.to(query.dtype).transpose(1, 2),
        enable_gqa=key.shape[2] != query.shape[1],
    )
    return out.squeeze(2)


@cache
def _attention(device: str) -> Callable[..., torch.Tensor]:
    """``flex_attention``; compiled once a process."""
    from torch.nn.attention.flex_attention import (  # noqa: PLC0415 - not in every torch
        flex_attention,
    )

    attend = torch.compile(flex_attention, dynamic=False) if device == "cuda" else flex_attention
    return cast("Callable[..., torch.Tensor]", attend)
