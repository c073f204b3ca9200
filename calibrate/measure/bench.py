"""From a point to calls of the real kernels on rotating buffers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from kvsim.calibrate.measure.anchor import anchor_workload
from kvsim.calibrate.measure.copies import copy_workload, swap_workload
from kvsim.calibrate.measure.timing import Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from kvsim.calibrate.measure.buffers import Buffers
    from kvsim.calibrate.measure.points import Point


class Bench(Protocol):
    """Makes what is timed."""

    def workload(self, point: Point) -> Workload:
        """Calls of a point; they stay valid until the next workload is made."""
        ...

    def anchor(self) -> Workload:
        """Work that is always the same (:mod:`kvsim.calibrate.measure.anchor`); stays valid."""
        ...


class KernelBench:
    """Kernels of one decoder shape on one device, whose ``buffers`` they read."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self.shape = buffers.shape
        self.device = buffers.device
        self.block_size = buffers.block_size

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
            "flex": self._flex,
            "copy": partial(copy_workload, self._buffers),
            "to_host": partial(swap_workload, self._buffers, to_host=True),
            "from_host": partial(swap_workload, self._buffers, to_host=False),
        }
        return make[point.block](**point.loads)

    def anchor(self) -> Workload:
        """See :class:`Bench`."""
        return anchor_workload(self.device, self._buffers.dtype)

    def _layer(self, tokens: int) -> Workload:
        """All of a layer but attention, in the order of a step."""
        from kvsim.kernels.dense import LayerWeights, mlp, project
        from kvsim.kernels.small_ops import rms_norm

        shape = self.shape
        width = shape.num_heads * shape.head_dim
        x = self._buffers.filled(tokens, shape.hidden_size)
        attended = self._buffers.filled(tokens, width)
        norm, write = self._buffers.norm(), self._rotate_and_write(tokens)

        def call(weights: LayerWeights) -> torch.Tensor:
            write(project(rms_norm(x, norm), weights.qkv))
            y = x + project(attended, weights.output)
            return y + mlp(rms_norm(y, norm), weights.gate_up, weights.down)

        weight_bytes = shape.layer_weights * self._buffers.element_bytes
        calls = []
        for _ in range(self._buffers.count(weight_bytes)):
            weights = LayerWeights(
                qkv=self._buffers.weight(shape.qkv_size, shape.hidden_size),
                output=self._buffers.weight(shape.hidden_size, width),
                gate_up=self._buffers.weight(2 * shape.intermediate_size, shape.hidden_size),
                down=self._buffers.weight(shape.hidden_size, shape.intermediate_size),
            )
            calls.append(partial(call, weights))
        return self._buffers.rotated(calls, weight_bytes, capturable=True)

    def _small(self, tokens: int) -> Workload:
        """Two norms, two residual sums, rotary of queries and keys, KV write."""
        from kvsim.kernels.small_ops import rms_norm

        shape = self.shape
        norm, write = self._buffers.norm(), self._rotate_and_write(tokens)

        def call(x: torch.Tensor, qkv: torch.Tensor) -> torch.Tensor:
            write(qkv)
            y = x + rms_norm(x, norm)
            return y + rms_norm(y, norm)

        call_bytes = tokens * (shape.hidden_size + shape.qkv_size) * self._buffers.element_bytes
        calls = [
            partial(
                call,
                self._buffers.filled(tokens, shape.hidden_size),
                self._buffers.filled(tokens, shape.qkv_size),
            )
            for _ in range(self._buffers.count(call_bytes))
        ]
        return self._buffers.rotated(calls, call_bytes, capturable=True)

    def _rotate_and_write(self, tokens: int) -> Callable[[torch.Tensor], None]:
        """Rotary of queries and keys and the KV write, from ``[tokens, qkv_size]``."""
        import torch

        from kvsim.kernels.paged_cache import write_kv
        from kvsim.kernels.small_ops import rotate

        shape = self.shape
        positions = torch.arange(tokens, device=self.device)
        cache = self._buffers.cache(-(-tokens // self.block_size))
        slots = self._buffers.permutation(cache.shape[0] * self.block_size).long()[:tokens]
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

        return self._contiguous_decode(contiguous_decode, batch, context)

    def _flex(self, batch: int, context: int) -> Workload:
        from kvsim.kernels.flex_decode import flex_decode

        return self._contiguous_decode(flex_decode, batch, context)

    def _contiguous_decode(
        self, kernel: Callable[..., torch.Tensor], batch: int, context: int
    ) -> Workload:
        shape = self.shape
        query = self._buffers.filled(batch, shape.num_heads, shape.head_dim)
        call_bytes = self._buffers.kv_bytes(batch * context)
        size = (batch, context, shape.num_kv_heads, shape.head_dim)
        calls = [
            partial(kernel, query, self._buffers.filled(*size), self._buffers.filled(*size))
            for _ in range(self._buffers.count(call_bytes))
        ]
        return self._buffers.rotated(calls, call_bytes, capturable=True)

    def _paged_decode(self, block_size: int, batch: int, context: int) -> Workload:
        import torch

        from kvsim.kernels.decode_attention import plan_decode

        blocks = -(-context // block_size)
        call_bytes = self._buffers.kv_bytes(batch * context)
        count = self._buffers.count(call_bytes)
        cache = self._buffers.cache(count * batch * blocks, block_size)
        tables = self._buffers.tables(count * batch, blocks).view(count, batch, blocks)
        query = self._buffers.filled(batch, self.shape.num_heads, self.shape.head_dim)
        lengths = torch.full((batch,), context, dtype=torch.int32, device=self.device)
        plans = [plan_decode(query, cache, table, lengths) for table in tables]
        calls = [partial(plan, query, cache) for plan in plans]
        return self._buffers.rotated(calls, call_bytes, capturable=self._decodes_in_graphs())

    def _prefill(self, chunk: int, past: int) -> Workload:
        return self._attention([chunk], [past + chunk])

    def _mixed(self, chunk: int, past: int, decodes: int, context: int) -> Workload:
        return self._attention([chunk, *[1] * decodes], [past + chunk, *[context] * decodes])

    def _attention(self, query_lens: list[int], context_lens: list[int]) -> Workload:
        """Attention of chunks and decodes over the paged cache, as each layer of a step runs it."""
        import torch

        from kvsim.kernels.mixed_attention import plan_attention

        rows, longest = len(query_lens), max(context_lens)
        blocks = -(-longest // self.block_size)
        call_bytes = self._buffers.kv_bytes(sum(context_lens))
        count = self._buffers.count(call_bytes)
        counts = torch.tensor([-(-length // self.block_size) for length in context_lens])
        cache = self._buffers.cache(count * int(counts.sum()))
        pool = self._buffers.permutation(cache.shape[0])
        query = self._buffers.filled(sum(query_lens), self.shape.num_heads, self.shape.head_dim)
        calls = []
        start = 0
        for _ in range(count):
            table = torch.zeros(rows, blocks, dtype=torch.int32)
            for row, held in enumerate(counts.tolist()):
                table[row, :held] = pool[start : start + held]
                start += held
            on_device = table.to(self.device)
            plan = plan_attention(query, cache, on_device, context_lens, query_lens)
            calls.append(partial(plan, query, cache))
        graph = 1 not in query_lens or self._decodes_in_graphs()
        return self._buffers.rotated(calls, call_bytes, capturable=graph)

    def _decodes_in_graphs(self) -> bool:
        """Whether decode attention runs without the host; gathering reads lengths there."""
        from kvsim.kernels.decode_attention import implementation

        kernel = implementation(self.device, self._buffers.dtype, self.shape.head_dim)
        return kernel != "gather_and_sdpa"

    def _head(self, batch: int) -> Workload:
        from kvsim.kernels.dense import project
        from kvsim.kernels.small_ops import rms_norm, sample

        shape = self.shape
        x, norm = self._buffers.filled(batch, shape.hidden_size), self._buffers.norm()
        call_bytes = shape.vocab_size * shape.hidden_size * self._buffers.element_bytes

        def call(weight: torch.Tensor) -> torch.Tensor:
            return sample(project(rms_norm(x, norm), weight), 0, None)

        calls = [
            partial(call, self._buffers.weight(shape.vocab_size, shape.hidden_size))
            for _ in range(self._buffers.count(call_bytes))
        ]
        return self._buffers.rotated(calls, call_bytes, capturable=True)

    def _host(self, requests: int, context: int) -> Workload:
        """Putting the inputs of a decode step together, on the host."""
        import torch

        from kvsim.kernels.decoder import SequenceInput, step_inputs

        blocks = -(-context // self.block_size)
        tables = self._buffers.permutation(requests * blocks).view(requests, blocks)
        token = torch.zeros(1, dtype=torch.int64, device=self.device)
        batch = [SequenceInput(token, context - 1, table) for table in tables]
        call = partial(step_inputs, batch, self.block_size, self.device)
        return Workload([call], 0)
