"""The decoder with its paged cache computes what the one without a cache does."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from kvsim.kernels.decoder import Decoder, SequenceInput
from kvsim.kernels.shape import DecoderShape

DENSE = DecoderShape(3, 48, 6, 2, 16, 96, 211)
SHAPES = {"dense": DENSE, "experts": replace(DENSE, num_experts=4, experts_per_token=2)}
BLOCK_SIZE = 4


def poisoned(shape: DecoderShape, device: torch.device) -> Decoder:
    decoder = Decoder(
        shape, num_blocks=40, block_size=BLOCK_SIZE, device=device, dtype=torch.float32
    )
    for cache in decoder.caches:
        cache.fill_(float("nan"))
    return decoder


@pytest.mark.parametrize("name", SHAPES)
def test_chunks_and_decodes_in_one_step_give_the_naive_logits(
    rng: torch.Generator, device: torch.device, name: str
) -> None:
    """Three sequences of different pace: whole prompt, chunks, decodes beside them."""
    decoder = poisoned(SHAPES[name], device)
    texts = [torch.randint(0, 211, (20,), generator=rng).to(device) for _ in range(3)]
    order = torch.randperm(40, generator=rng).to(torch.int32)
    tables = [order[10 * row : 10 * row + 5] for row in range(3)]
    done = [0, 0, 0]
    for step in ([7, 3, 0], [1, 5, 0], [1, 1, 11], [1, 1, 1], [4, 1, 2]):
        batch, rows = [], []
        for row, count in enumerate(step):
            if count:
                new = texts[row][done[row] : done[row] + count]
                batch.append(SequenceInput(new, done[row], tables[row]))
                rows.append(row)
                done[row] += count
        logits = decoder.step(batch)
        assert logits.shape == (len(batch), 211)
        for place, row in enumerate(rows):
            naive = decoder.naive_logits(texts[row][: done[row]])
            torch.testing.assert_close(logits[place], naive, rtol=1e-4, atol=1e-4)


def test_a_shared_block_serves_two_sequences(rng: torch.Generator, device: torch.device) -> None:
    decoder = poisoned(DENSE, device)
    text = torch.randint(0, 211, (BLOCK_SIZE + 2,), generator=rng).to(device)
    first = torch.tensor([3, 8], dtype=torch.int32)
    second = torch.tensor([3, 9], dtype=torch.int32)
    decoder.step([SequenceInput(text, 0, first)])
    other = torch.cat((text[:BLOCK_SIZE], text[-1:] * 0 + 5))
    logits = decoder.step([SequenceInput(other[BLOCK_SIZE:], BLOCK_SIZE, second)])
    torch.testing.assert_close(logits[0], decoder.naive_logits(other), rtol=1e-4, atol=1e-4)


def test_a_wrong_block_table_gives_other_logits(rng: torch.Generator, device: torch.device) -> None:
    """Guard of the guards: the cache is what is read."""
    decoder = poisoned(DENSE, device)
    text = torch.randint(0, 211, (9,), generator=rng).to(device)
    table = torch.tensor([1, 2, 3], dtype=torch.int32)
    decoder.step([SequenceInput(text[:8], 0, table)])
    wrong = torch.tensor([1, 1, 3], dtype=torch.int32)
    logits = decoder.step([SequenceInput(text[8:], 8, wrong)])
    assert not torch.allclose(logits[0], decoder.naive_logits(text), atol=1e-3)


def test_the_same_seed_makes_the_same_model(device: torch.device) -> None:
    text = torch.arange(6, device=device)
    one, two = (poisoned(DENSE, device).naive_logits(text) for _ in range(2))
    assert torch.equal(one, two)
