"""Memory that calls read: random numbers, in so many copies that none is warm when it is read.

All buffers hold random numbers: zeros draw less power, and a processor may skip them. Block tables
are random permutations of the pool, as they are after an engine has run for a while.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from kvsim.calibrate.measure.device import DTYPES
from kvsim.calibrate.measure.timing import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from kvsim.kernels.shape import DecoderShape

ROTATE_BEYOND: Final = 2
"""Times the last-level cache that is touched before a buffer comes round again."""
_MOST_BUFFERS: Final = 128
_TILE: Final = 1 << 20
_BYTES_OF: Final = {"bf16": 2, "fp16": 2, "fp32": 4}


class Buffers:
    """Makes buffers of one decoder shape on one device; see the module docstring.

    ``cache_bytes``: the last-level cache; ``dtype`` (weights and KV): ``bf16``, ``fp16``, ``fp32``.
    """

    def __init__(
        self,
        shape: DecoderShape,
        *,
        device: torch.device,
        dtype: str,
        block_size: int,
        cache_bytes: int,
        seed: int = 0,
    ) -> None:
        import torch

        self.shape = shape
        self.device = device
        self.dtype: torch.dtype = getattr(torch, DTYPES[dtype])
        self.block_size = block_size
        self.element_bytes = _BYTES_OF[dtype]
        self._rotate_bytes = ROTATE_BEYOND * cache_bytes
        self._rng = torch.Generator().manual_seed(seed)
        self._tile = torch.randn(_TILE, generator=self._rng).to(device, self.dtype)

    def count(self, call_bytes: int) -> int:
        """So many that their bytes exceed twice the cache (fewer only where each is tiny)."""
        return min(math.ceil(self._rotate_bytes / call_bytes) + 1, _MOST_BUFFERS)

    def rotated(
        self, calls: Sequence[Callable[[], object]], call_bytes: int, *, capturable: bool = False
    ) -> Workload:
        """Workload of such calls, each of which touches ``call_bytes``."""
        return Workload(calls, call_bytes * (len(calls) - 1), capturable)

    def block_bytes(self) -> int:
        """Bytes of a KV block in one layer."""
        return self.kv_bytes(self.block_size)

    def kv_bytes(self, tokens: int) -> int:
        """Bytes of KV of so many tokens in one layer."""
        return tokens * self.shape.kv_bytes_per_token(self.element_bytes)

    def norm(self) -> torch.Tensor:
        """Weights of a norm."""
        import torch

        return torch.ones(self.shape.hidden_size, device=self.device, dtype=self.dtype)

    def weight(self, rows: int, columns: int) -> torch.Tensor:
        """Weights that keep the size of what they are multiplied with."""
        return self.filled(rows, columns).mul_(columns**-0.5)

    def filled(self, *size: int) -> torch.Tensor:
        """Random numbers, drawn once and repeated: drawing gigabytes takes longer than timing."""
        import torch

        out = torch.empty(size, device=self.device, dtype=self.dtype)
        flat = out.view(-1)
        whole = flat.numel() // _TILE * _TILE
        flat[:whole].view(-1, _TILE).copy_(self._tile.expand(whole // _TILE, _TILE))
        flat[whole:] = self._tile[: flat.numel() - whole]
        return out

    def cache(self, num_blocks: int, block_size: int | None = None) -> torch.Tensor:
        """KV cache of one layer, all of it written."""
        shape = self.shape
        size = block_size or self.block_size
        return self.filled(num_blocks, 2, size, shape.num_kv_heads, shape.head_dim)

    def permutation(self, count: int) -> torch.Tensor:
        """Random order, int32 on the host."""
        import torch

        return torch.randperm(count, generator=self._rng).to(torch.int32)

    def tables(self, rows: int, blocks: int) -> torch.Tensor:
        """Block tables, each block in one of them once."""
        return self.permutation(rows * blocks).view(rows, blocks).to(self.device)
