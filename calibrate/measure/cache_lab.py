"""What a KV cache buys, and what it costs: the two classic tables, on any device.

*Next token with and without a cache*: with one, a step reads the cache; without, it computes the
whole text again. *Decode step against context*: weights are read once a step whatever the batch,
KV once a request, so the step grows with context, and sooner at batch 16 than at batch 1.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kvsim.calibrate.measure.timing import TimingRule, Workload, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch

    from kvsim.calibrate.measure.timing import Timer
    from kvsim.kernels.decoder import Decoder
    from kvsim.kernels.shape import DecoderShape

CONTEXTS: Final = (128, 256, 512, 1024, 2048, 4096, 8192)
BATCHES: Final = (1, 16)
_RULE: Final = TimingRule(repeats=7, budget_s=1.0, min_repeats=3)
_SLOWEST_GROWTH: Final = 2.5
"""Times longer that the next size may take: contexts double, attention is part quadratic."""


class CacheRow(NamedTuple):
    """Next token at one length: times in us, ``None`` where the time limit was reached."""

    context: int
    cached_us: float
    naive_us: float | None


class StepRow(NamedTuple):
    """Decode step of ``batch`` requests at ``context`` tokens each."""

    batch: int
    context: int
    step_us: float


class DecoderLab:
    """Makes the calls that a lab times on one decoder whose cache holds 16 longest texts."""

    def __init__(self, decoder: Decoder, seed: int = 0) -> None:
        import torch

        self._decoder = decoder
        self._rng = torch.Generator().manual_seed(seed)
        blocks = torch.randperm(decoder.caches[0].shape[0], generator=self._rng)
        self._pool = blocks.to(torch.int32)
        for cache in decoder.caches:
            cache.normal_()

    def cached(self, batch: int, context: int) -> Callable[[], object]:
        """One decode step; the other tokens are in the cache already."""
        from kvsim.kernels.decoder import SequenceInput

        decoder = self._decoder
        blocks = -(-context // decoder.block_size)
        tables = self._pool[: batch * blocks].view(batch, blocks)
        items = [SequenceInput(self._text(1), context - 1, table) for table in tables]
        return partial(decoder.step, items)

    def naive(self, context: int) -> Callable[[], object]:
        """The whole text again."""
        return partial(self._decoder.naive_logits, self._text(context))

    def _text(self, count: int) -> torch.Tensor:
        import torch

        vocab = self._decoder.shape.vocab_size
        return torch.randint(0, vocab, (count,), generator=self._rng).to(self._decoder.device)


def blocks_needed(contexts: Sequence[int], block_size: int) -> int:
    """Blocks of the largest batch at the longest context."""
    return max(BATCHES) * -(-max(contexts) // block_size)


def cache_table(
    lab: DecoderLab, timer: Timer, contexts: Sequence[int], limit_s: float
) -> list[CacheRow]:
    """Next token with and without a cache; without, until one would take over ``limit_s``."""
    rows: list[CacheRow] = []
    naive_us: float | None = 0.0
    for context in contexts:
        cached_us = _median_us(lab.cached(1, context), timer)
        if naive_us is not None and naive_us * _SLOWEST_GROWTH <= limit_s * 1e6:
            naive_us = _median_us(lab.naive(context), timer)
        else:
            naive_us = None
        rows.append(CacheRow(context, cached_us, naive_us))
    return rows


def step_table(lab: DecoderLab, timer: Timer, contexts: Sequence[int]) -> list[StepRow]:
    """Decode step against context, batch by batch."""
    return [
        StepRow(batch, context, _median_us(lab.cached(batch, context), timer))
        for batch in BATCHES
        for context in contexts
    ]


def expected_s(lab: DecoderLab, timer: Timer, contexts: Sequence[int], limit_s: float) -> float:
    """Seconds that both tables will take: two short texts a column, continued in a line.

    Attention of the whole text grows faster than that, which is why this is right within a factor
    of two only.
    """
    few, more = contexts[0], contexts[min(2, len(contexts) - 1)]
    columns: list[tuple[Callable[[int], Callable[[], object]], float]] = [
        (lab.naive, limit_s),
        *((partial(lab.cached, batch), math.inf) for batch in (1, *BATCHES)),
    ]
    total_s = 0.0
    for call, most_s in columns:
        few_s, more_s = (_median_us(call(context), timer) / 1e6 for context in (few, more))
        slope_s = max(more_s - few_s, 0.0) / (more - few)
        for context in contexts:
            call_s = few_s + slope_s * (context - few)
            if call_s <= most_s:
                total_s += call_s * (1 + _repeats(call_s))
    return total_s


def _repeats(call_s: float) -> float:
    return min(_RULE.repeats, max(_RULE.min_repeats, _RULE.budget_s / call_s))


def growth_by_bytes(
    shape: DecoderShape, element_bytes: int, batch: int, context: int, first: int
) -> float:
    """Bytes that a step reads at ``context`` over those at ``first``: what bandwidth alone says."""
    weights = shape.num_layers * shape.layer_weights + shape.vocab_size * shape.hidden_size

    def read(tokens: int) -> int:
        kv_bytes = shape.num_layers * shape.kv_bytes_per_token(element_bytes)
        return weights * element_bytes + batch * tokens * kv_bytes

    return read(context) / read(first)


def _median_us(call: Callable[[], object], timer: Timer) -> float:
    return measure(Workload([call], 0), timer, _RULE).median_us
