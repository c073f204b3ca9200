"""A tiny transformer with random weights that serves a real batch from a real paged KV cache.

One call of :meth:`Decoder.step` is one engine step: chunks and decodes of several sequences in one
forward pass, K and V written to the slots their block tables give. :meth:`Decoder.naive_logits` is
the same model without a cache: it computes the whole sequence each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn.utils.rnn import pad_sequence

from kvsim.kernels.dense import mlp, project, random_layer, random_weight
from kvsim.kernels.experts import ExpertWeights, mixture, random_experts
from kvsim.kernels.mixed_attention import plan_attention
from kvsim.kernels.paged_cache import make_cache, slots_of, write_kv
from kvsim.kernels.prefill_attention import prefill_attention
from kvsim.kernels.small_ops import rms_norm, rotate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsim.kernels.decode_attention import Planned
    from kvsim.kernels.dense import LayerWeights
    from kvsim.kernels.shape import DecoderShape


@dataclass(frozen=True, slots=True)
class SequenceInput:
    """One sequence's part in a step.

    ``tokens``: the new ones, int64 ``[n]`` on the device; ``past``: tokens computed before;
    ``block_table``: int32 on the host, blocks for ``past + n`` tokens at least.
    """

    tokens: torch.Tensor
    past: int
    block_table: torch.Tensor


class StepInputs(NamedTuple):
    """What all layers of a step need, N tokens of B sequences; tensors on the device."""

    tokens: torch.Tensor
    """int64, ``[N]``, sequences one after the other."""
    positions: torch.Tensor
    slots: torch.Tensor
    tables: torch.Tensor
    """int32, ``[B, longest]``, padded with 0."""
    last: torch.Tensor
    """Place of each sequence's last token among the N."""
    lengths: list[int]
    """Contexts after the step."""
    counts: list[int]
    """Tokens of each sequence in the step."""


def step_inputs(
    batch: Sequence[SequenceInput], block_size: int, device: torch.device
) -> StepInputs:
    """Put a step's inputs together: the host's part of a step, then one copy of each."""
    counts = [len(item.tokens) for item in batch]
    lengths = [item.past + count for item, count in zip(batch, counts, strict=True)]
    tables = pad_sequence([item.block_table for item in batch], batch_first=True)
    num_tokens = torch.tensor(counts)
    ends = num_tokens.cumsum(0)
    rows = torch.arange(len(batch)).repeat_interleave(num_tokens)
    positions = torch.arange(len(rows)) + (torch.tensor(lengths) - ends)[rows]
    places = rows * (tables.shape[1] * block_size) + positions
    slots = slots_of(tables.flatten(), places, block_size)
    return StepInputs(
        tokens=torch.cat([item.tokens for item in batch]),
        positions=positions.to(device),
        slots=slots.to(device),
        tables=tables.to(device),
        last=(ends - 1).to(device),
        lengths=lengths,
        counts=counts,
    )


class Decoder:
    """Weights and KV cache on one device; see the module docstring."""

    def __init__(
        self,
        shape: DecoderShape,
        *,
        num_blocks: int,
        block_size: int,
        device: torch.device,
        dtype: torch.dtype,
        kv_dtype: torch.dtype | None = None,
        seed: int = 0,
    ) -> None:
        rng = torch.Generator().manual_seed(seed)
        self.shape = shape
        self.block_size = block_size
        self.device, self.dtype = device, dtype
        self.embedding = random_weight(
            shape.vocab_size, shape.hidden_size, device=device, dtype=dtype, rng=rng
        )
        self.head = random_weight(
            shape.vocab_size, shape.hidden_size, device=device, dtype=dtype, rng=rng
        )
        self._norm = torch.ones(shape.hidden_size, device=device, dtype=dtype)
        self._layers: list[LayerWeights] = []
        self._experts: list[ExpertWeights] = []
        for _ in range(shape.num_layers):
            self._layers.append(random_layer(shape, device=device, dtype=dtype, rng=rng))
            if shape.num_experts:
                self._experts.append(random_experts(shape, device=device, dtype=dtype, rng=rng))
        self.caches = [
            make_cache(
                num_blocks,
                block_size,
                shape.num_kv_heads,
                shape.head_dim,
                device=device,
                dtype=kv_dtype or dtype,
            )
            for _ in range(shape.num_layers)
        ]

    @torch.inference_mode()
    def step(self, batch: Sequence[SequenceInput]) -> torch.Tensor:
        """One step: logits of each sequence's last token, ``[len(batch), vocab_size]``."""
        step = step_inputs(batch, self.block_size, self.device)
        x = self.embedding[step.tokens]
        attend: Planned | None = None
        for number, cache in enumerate(self.caches):
            query, key, value = self._qkv(x, number, step.positions)
            write_kv(cache, key, value, step.slots)
            if attend is None:
                attend = plan_attention(query, cache, step.tables, step.lengths, step.counts)
            x = self._after_attention(x, attend(query, cache), number)
        return self._logits(x[step.last])

    @torch.inference_mode()
    def naive_logits(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the last of ``tokens``, ``[vocab_size]``: everything anew, nothing cached."""
        positions = torch.arange(len(tokens), device=self.device)
        x = self.embedding[tokens]
        for number in range(self.shape.num_layers):
            query, key, value = self._qkv(x, number, positions)
            x = self._after_attention(x, prefill_attention(query, key, value), number)
        return self._logits(x[-1:])[0]

    def _qkv(
        self, x: torch.Tensor, number: int, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        shape = self.shape
        qkv = project(rms_norm(x, self._norm), self._layers[number].qkv)
        qkv = qkv.view(len(x), -1, shape.head_dim)
        sizes = [shape.num_heads, shape.num_kv_heads, shape.num_kv_heads]
        query, key, value = torch.split(qkv, sizes, dim=1)
        return rotate(query, positions), rotate(key, positions), value

    def _after_attention(
        self, x: torch.Tensor, attended: torch.Tensor, number: int
    ) -> torch.Tensor:
        weights = self._layers[number]
        x = x + project(attended.flatten(1), weights.output)
        inner = rms_norm(x, self._norm)
        if self._experts:
            return x + mixture(inner, self._experts[number], self.shape.experts_per_token)
        return x + mlp(inner, weights.gate_up, weights.down)

    def _logits(self, x: torch.Tensor) -> torch.Tensor:
        return project(rms_norm(x, self._norm), self.head)
