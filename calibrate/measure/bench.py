"""From a point to calls of the real kernels on buffers that rotate beyond twice the last cache.

All buffers hold random numbers: zeros draw less power, and a processor may skip them. Block tables
are random permutations of the pool, as they are after an engine has run for a while.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from kvsim.calibrate.measure.timing import Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from kvsim.calibrate.measure.points import Point
    from kvsim.kernels.shape import DecoderShape

ROTATE_BEYOND: Final = 2
"""Times the last-level cache that is touched before a buffer comes round again."""
_MOST_BUFFERS: Final = 128
_TILE: Final = 1 << 20
_ANCHOR_SIZE: Final = 2048
_ANCHOR_NUMBERS: Final = 1 << 14
_BYTES_OF: Final = {"bf16": 2, "fp16": 2, "fp32": 4}


class Bench(Protocol):
    """Makes what is timed."""

    def workload(self, point: Point) -> Workload:
        """Calls of a point; they stay valid until the next workload is made."""
        ...

    def anchor(self) -> Workload:
        """Work that is always the same, to notice a clock that drifts."""
        ...


class KernelBench:
    """Kernels of one decoder shape on one device.

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

        from kvsim.calibrate.measure.device import DTYPES

        self.shape = shape
        self.device = device
        self.dtype: torch.dtype = getattr(torch, DTYPES[dtype])
        self.block_size = block_size
        self._element_bytes = _BYTES_OF[dtype]
        self._rotate_bytes = ROTATE_BEYOND * cache_bytes
        self._rng = torch.Generator().manual_seed(seed)
        self._tile = torch.randn(_TILE, generator=self._rng).to(device, self.dtype)

    def workload(self, point: Point) -> Workload:
        """See :class:`Bench`."""
        make: dict[str, Callable[..., Workload]] = {
            "layer": self._layer,
            "small": self._small,
            "decode": self._decode,
            "prefill": self._prefill,
            "mixed": self._mixed,
            "head": self._head,
            "host": self._host,
            "layout": self._layout,
            "copy": self._copy,
            "to_host": partial(self._swap, to_host=True),
            "from_host": partial(self._swap, to_host=False),
        }
        return make[point.block](**point.loads)

    def anchor(self) -> Workload:
        """One matrix product; on a CPU exponentials by one thread.

        (Threads that wait for each other while other work runs would say nothing of the clock.)
        """
        import torch

        if self.device.type == "cpu":
            numbers = np.linspace(0.0, 1.0, _ANCHOR_NUMBERS)
            return Workload([partial(np.exp, numbers)], 0)
        size = _ANCHOR_SIZE
        left, right = self._filled(size, size), self._filled(size, size)
        return Workload([lambda: torch.mm(left, right)], 0, capturable=True)

    # ---- blocks ----------------------------------------------------------------------------

    def _layer(self, tokens: int) -> Workload:
        """All of a layer but attention, in the order of a step."""
        from kvsim.kernels.dense import LayerWeights, mlp, project
        from kvsim.kernels.small_ops import rms_norm

        shape = self.shape
        width = shape.num_heads * shape.head_dim
        x, attended = self._filled(tokens, shape.hidden_size), self._filled(tokens, width)
        norm, write = self._norm(), self._rotate_and_write(tokens)

        def call(weights: LayerWeights) -> torch.Tensor:
            write(project(rms_norm(x, norm), weights.qkv))
            y = x + project(attended, weights.output)
            return y + mlp(rms_norm(y, norm), weights.gate_up, weights.down)

        weight_bytes = shape.layer_weights * self._element_bytes
        calls = []
        for _ in range(self._num_buffers(weight_bytes)):
            weights = LayerWeights(
                qkv=self._weight(shape.qkv_size, shape.hidden_size),
                output=self._weight(shape.hidden_size, width),
                gate_up=self._weight(2 * shape.intermediate_size, shape.hidden_size),
                down=self._weight(shape.hidden_size, shape.intermediate_size),
            )
            calls.append(partial(call, weights))
        return self._rotated(calls, weight_bytes, capturable=True)

    def _small(self, tokens: int) -> Workload:
        """Two norms, two residual sums, rotary of queries and keys, KV write."""
        from kvsim.kernels.small_ops import rms_norm

        shape = self.shape
        norm, write = self._norm(), self._rotate_and_write(tokens)

        def call(x: torch.Tensor, qkv: torch.Tensor) -> torch.Tensor:
            write(qkv)
            y = x + rms_norm(x, norm)
            return y + rms_norm(y, norm)

        call_bytes = tokens * (shape.hidden_size + shape.qkv_size) * self._element_bytes
        calls = [
            partial(
                call,
                self._filled(tokens, shape.hidden_size),
                self._filled(tokens, shape.qkv_size),
            )
            for _ in range(self._num_buffers(call_bytes))
        ]
        return self._rotated(calls, call_bytes, capturable=True)

    def _rotate_and_write(self, tokens: int) -> Callable[[torch.Tensor], None]:
        """Rotary of queries and keys and the KV write, from ``[tokens, qkv_size]``."""
        import torch

        from kvsim.kernels.paged_cache import write_kv
        from kvsim.kernels.small_ops import rotate

        shape = self.shape
        positions = torch.arange(tokens, device=self.device)
        cache = self._cache(-(-tokens // self.block_size))
        slots = self._permutation(cache.shape[0] * self.block_size).long()[:tokens]
        on_device = slots.to(self.device)
        sizes = [shape.num_heads, shape.num_kv_heads, shape.num_kv_heads]

        def write(qkv: torch.Tensor) -> None:
            heads = qkv.view(tokens, -1, shape.head_dim)
            query, key, value = torch.split(heads, sizes, dim=1)
            rotate(query, positions)
            write_kv(cache, rotate(key, positions), value, on_device)

        return write

    def _decode(self, batch: int, context: int) -> Workload:
        return self._paged_decode(self.block_size, batch, context)

    def _layout(self, block_size: int, batch: int, context: int) -> Workload:
        if block_size:
            return self._paged_decode(block_size, batch, context)
        from kvsim.kernels.decode_attention import contiguous_decode

        shape = self.shape
        query = self._filled(batch, shape.num_heads, shape.head_dim)
        call_bytes = self._kv_bytes(batch * context)
        size = (batch, context, shape.num_kv_heads, shape.head_dim)
        calls = [
            partial(contiguous_decode, query, self._filled(*size), self._filled(*size))
            for _ in range(self._num_buffers(call_bytes))
        ]
        return self._rotated(calls, call_bytes, capturable=True)

    def _paged_decode(self, block_size: int, batch: int, context: int) -> Workload:
        import torch

        from kvsim.kernels.decode_attention import decode_attention, implementation

        blocks = -(-context // block_size)
        call_bytes = self._kv_bytes(batch * context)
        count = self._num_buffers(call_bytes)
        cache = self._cache(count * batch * blocks, block_size)
        tables = self._tables(count * batch, blocks).view(count, batch, blocks)
        query = self._filled(batch, self.shape.num_heads, self.shape.head_dim)
        lengths = torch.full((batch,), context, dtype=torch.int32, device=self.device)
        calls = [partial(decode_attention, query, cache, table, lengths) for table in tables]
        graph = implementation(self.device) == "triton_split_k"
        return self._rotated(calls, call_bytes, capturable=graph)

    def _prefill(self, chunk: int, past: int) -> Workload:
        return self._attention([chunk], [past + chunk])

    def _mixed(self, chunk: int, past: int, decodes: int, context: int) -> Workload:
        return self._attention([chunk, *[1] * decodes], [past + chunk, *[context] * decodes])

    def _attention(self, query_lens: list[int], context_lens: list[int]) -> Workload:
        """Attention of chunks and decodes over the paged cache, as a step runs it."""
        import torch

        from kvsim.kernels.mixed_attention import mixed_attention

        rows, longest = len(query_lens), max(context_lens)
        blocks = -(-longest // self.block_size)
        call_bytes = self._kv_bytes(sum(context_lens))
        count = self._num_buffers(call_bytes)
        counts = torch.tensor([-(-length // self.block_size) for length in context_lens])
        cache = self._cache(count * int(counts.sum()))
        pool = self._permutation(cache.shape[0])
        lengths = torch.tensor(context_lens, dtype=torch.int32, device=self.device)
        query = self._filled(sum(query_lens), self.shape.num_heads, self.shape.head_dim)
        calls = []
        start = 0
        for _ in range(count):
            table = torch.zeros(rows, blocks, dtype=torch.int32)
            for row, held in enumerate(counts.tolist()):
                table[row, :held] = pool[start : start + held]
                start += held
            on_device = table.to(self.device)
            calls.append(partial(mixed_attention, query, cache, on_device, lengths, query_lens))
        return self._rotated(calls, call_bytes)

    def _head(self, batch: int) -> Workload:
        from kvsim.kernels.dense import project
        from kvsim.kernels.small_ops import rms_norm, sample

        shape = self.shape
        x, norm = self._filled(batch, shape.hidden_size), self._norm()
        call_bytes = shape.vocab_size * shape.hidden_size * self._element_bytes

        def call(weight: torch.Tensor) -> torch.Tensor:
            return sample(project(rms_norm(x, norm), weight), 0, None)

        calls = [
            partial(call, self._weight(shape.vocab_size, shape.hidden_size))
            for _ in range(self._num_buffers(call_bytes))
        ]
        return self._rotated(calls, call_bytes, capturable=True)

    def _host(self, requests: int, context: int) -> Workload:
        """Putting the inputs of a decode step together, on the host."""
        import torch

        from kvsim.kernels.decoder import SequenceInput, step_inputs

        blocks = -(-context // self.block_size)
        tables = self._tables(requests, blocks)
        token = torch.zeros(1, dtype=torch.int64, device=self.device)
        batch = [SequenceInput(token, context - 1, table) for table in tables]
        call = partial(step_inputs, batch, self.block_size, self.device)
        return Workload([call], 0)

    def _copy(self, blocks: int, contiguous: int) -> Workload:
        from kvsim.kernels.block_copy import copy_blocks

        call_bytes = 2 * blocks * self._block_bytes()
        count = self._num_buffers(call_bytes)
        if contiguous:
            pieces = [(self._cache(blocks), self._cache(blocks)) for _ in range(count)]
            whole = [partial(target.copy_, source) for source, target in pieces]
            return self._rotated(whole, call_bytes, capturable=True)
        cache = self._cache(2 * blocks * count)
        pairs = self._permutation(2 * blocks * count).long().view(count, blocks, 2)
        calls = [partial(copy_blocks, [cache], pair.to(self.device)) for pair in pairs]
        return self._rotated(calls, call_bytes)

    def _swap(self, blocks: int, contiguous: int, *, to_host: bool) -> Workload:
        from kvsim.kernels.block_copy import host_cache, swap_blocks

        cache = self._cache(2 * blocks)
        host = host_cache(cache, 2 * blocks)
        source, target = (cache, host) if to_host else (host, cache)
        if contiguous:
            call: Callable[[], object] = partial(
                target[:blocks].copy_, source[:blocks], non_blocking=True
            )
        else:
            chosen = self._permutation(2 * blocks).long().view(blocks, 2)
            call = partial(swap_blocks, [source], [target], chosen)
        return self._rotated([call], blocks * self._block_bytes())

    # ---- buffers ---------------------------------------------------------------------------

    def _num_buffers(self, call_bytes: int) -> int:
        """So many that their bytes exceed twice the cache (fewer only where each is tiny)."""
        return min(math.ceil(self._rotate_bytes / call_bytes) + 1, _MOST_BUFFERS)

    def _rotated(
        self, calls: Sequence[Callable[[], object]], call_bytes: int, *, capturable: bool = False
    ) -> Workload:
        return Workload(calls, call_bytes * (len(calls) - 1), capturable)

    def _block_bytes(self) -> int:
        return self._kv_bytes(self.block_size)

    def _kv_bytes(self, tokens: int) -> int:
        return tokens * self.shape.kv_bytes_per_token(self._element_bytes)

    def _norm(self) -> torch.Tensor:
        import torch

        return torch.ones(self.shape.hidden_size, device=self.device, dtype=self.dtype)

    def _weight(self, rows: int, columns: int) -> torch.Tensor:
        return self._filled(rows, columns).mul_(columns**-0.5)

    def _filled(self, *size: int) -> torch.Tensor:
        """Random numbers, drawn once and repeated: drawing gigabytes takes longer than timing."""
        import torch

        out = torch.empty(size, device=self.device, dtype=self.dtype)
        flat = out.view(-1)
        whole = flat.numel() // _TILE * _TILE
        flat[:whole].view(-1, _TILE).copy_(self._tile.expand(whole // _TILE, _TILE))
        flat[whole:] = self._tile[: flat.numel() - whole]
        return out

    def _cache(self, num_blocks: int, block_size: int | None = None) -> torch.Tensor:
        shape = self.shape
        size = block_size or self.block_size
        return self._filled(num_blocks, 2, size, shape.num_kv_heads, shape.head_dim)

    def _permutation(self, count: int) -> torch.Tensor:
        import torch

        return torch.randperm(count, generator=self._rng).to(torch.int32)

    def _tables(self, rows: int, blocks: int) -> torch.Tensor:
        return self._permutation(rows * blocks).view(rows, blocks).to(self.device)
