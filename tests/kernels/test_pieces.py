"""Each piece of a step against its reference in float64, on fresh inputs and poisoned outputs."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from kvsim.kernels.block_copy import check_pairs, copy_blocks, host_cache, swap_blocks
from kvsim.kernels.dense import (
    layer_gemms,
    mlp,
    project,
    project_reference,
    random_layer,
    random_weight,
)
from kvsim.kernels.experts import mixture, mixture_reference, random_experts, route
from kvsim.kernels.mla_decode import mla_decode, mla_reference
from kvsim.kernels.paged_cache import gather_kv, make_cache, slots_of, write_kv
from kvsim.kernels.prefill_attention import (
    attention_reference,
    causal_mask,
    prefill_attention,
)
from kvsim.kernels.shape import DecoderShape
from kvsim.kernels.small_ops import rms_norm, rotate, sample

SHAPE = DecoderShape(2, 48, 6, 2, 16, 96, 200, num_experts=5, experts_per_token=2)


def close(ours: torch.Tensor, theirs: torch.Tensor, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(
        ours.double().cpu(), theirs.double().cpu(), rtol=tolerance, atol=tolerance
    )


def randn(rng: torch.Generator, device: torch.device, *sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=rng).to(device)


@pytest.mark.parametrize("num_tokens", [1, 2, 3, 4, 7, 64])
def test_projections(rng: torch.Generator, device: torch.device, num_tokens: int) -> None:
    weights = random_layer(SHAPE, device=device, dtype=torch.float32, rng=rng)
    x = randn(rng, device, num_tokens, SHAPE.hidden_size)
    close(project(x, weights.qkv), project_reference(x, weights.qkv))
    gate, up = project_reference(x, weights.gate_up).chunk(2, dim=-1)
    down = weights.down.double()
    close(mlp(x, weights.gate_up, weights.down), (gate / (1 + (-gate).exp()) * up) @ down.T)
    attention = randn(rng, device, num_tokens, SHAPE.num_heads * SHAPE.head_dim)
    out = layer_gemms(x, weights, attention)
    close(out, mlp(project(attention, weights.output), weights.gate_up, weights.down))


def test_random_weights_keep_the_size_of_what_goes_through(rng: torch.Generator) -> None:
    weight = random_weight(400, 900, device=torch.device("cpu"), dtype=torch.float32, rng=rng)
    assert 0.9 < project(torch.randn(50, 900, generator=rng), weight).std() < 1.1


@pytest.mark.parametrize("num_tokens", [1, 3, 40])
def test_mixture_of_experts(rng: torch.Generator, device: torch.device, num_tokens: int) -> None:
    weights = random_experts(SHAPE, device=device, dtype=torch.float32, rng=rng)
    x = randn(rng, device, num_tokens, SHAPE.hidden_size)
    experts, shares = route(x, weights.router, SHAPE.experts_per_token)
    assert experts.shape == shares.shape == (num_tokens, 2)
    close(shares.sum(dim=-1), torch.ones(num_tokens))
    logits = project_reference(x, weights.router)
    assert (logits.gather(1, experts).min(dim=1).values >= logits.topk(2).values[:, 1] - 1e-4).all()
    ours = mixture(x, weights, SHAPE.experts_per_token)
    close(ours, mixture_reference(x, weights, experts, shares))


@pytest.mark.parametrize(
    ("chunk", "past"), [(1, 0), (1, 30), (9, 0), (9, 30), (33, 1), (200, 0), (300, 77)]
)
@pytest.mark.parametrize("heads", [(4, 4), (6, 2), (5, 1)])
def test_prefill_attention(
    rng: torch.Generator, device: torch.device, chunk: int, past: int, heads: tuple[int, int]
) -> None:
    query = randn(rng, device, chunk, heads[0], 16)
    key, value = randn(rng, device, 2, chunk + past, heads[1], 16)
    close(prefill_attention(query, key, value), attention_reference(query, key, value))


@pytest.mark.filterwarnings("ignore")  # what CUDA's kernels would need
@pytest.mark.parametrize(("chunk", "past"), [(9, 30), (33, 1), (2, 100)])
def test_the_bias_that_cuda_gets_is_the_mask(rng: torch.Generator, chunk: int, past: int) -> None:
    bias = causal_mask(chunk, chunk + past, torch.device("cuda"))
    mask = causal_mask(chunk, chunk + past, torch.device("cpu"))
    query = torch.randn(1, 6, chunk, 16, generator=rng)
    key, value = torch.randn(2, 1, 2, chunk + past, 16, generator=rng)
    ours, theirs = (
        functional.scaled_dot_product_attention(
            query, key, value, attn_mask=form, is_causal=False, enable_gqa=True
        )
        for form in (bias, mask)
    )
    close(ours, theirs)


def test_no_token_attends_to_later_ones(rng: torch.Generator, device: torch.device) -> None:
    query, key, value = (randn(rng, device, 8, 2, 16) for _ in range(3))
    whole = prefill_attention(query, key, value)
    key[5:], value[5:] = 1e4, 1e4
    changed = prefill_attention(query, key, value)
    close(changed[:5], whole[:5])
    assert not torch.allclose(changed[5:], whole[5:])


def test_written_kv_is_read_back_and_nothing_else_is_touched(
    rng: torch.Generator, device: torch.device
) -> None:
    cache = make_cache(9, 4, 2, 8, device=device, dtype=torch.float32).fill_(float("nan"))
    table = torch.tensor([7, 2, 5], dtype=torch.int32, device=device)
    key, value = randn(rng, device, 2, 10, 2, 8)
    positions = torch.arange(10, device=device)
    write_kv(cache, key, value, slots_of(table, positions, 4))
    again = gather_kv(cache, table, 10)
    assert torch.equal(again[0], key)
    assert torch.equal(again[1], value)
    written = ~cache.isnan().flatten(3).any(dim=-1)
    assert written.sum() == 2 * 10
    assert written[:, 0].nonzero().tolist() == [
        [2, 0], [2, 1], [2, 2], [2, 3], [5, 0], [5, 1], [7, 0], [7, 1], [7, 2], [7, 3],
    ]  # fmt: skip


def test_mla_decode(rng: torch.Generator, device: torch.device) -> None:
    lengths, block_size = [1, 37, 16], 8
    cache = torch.full((12, block_size, 40), float("nan"), device=device)
    order = torch.randperm(12, generator=rng)
    tables = torch.zeros(3, 5, dtype=torch.int32)
    rows, start = [], 0
    for row, length in enumerate(lengths):
        count = -(-length // block_size)
        tables[row, :count] = order[start : start + count]
        start += count
        latents = randn(rng, device, length, 40)
        slots = slots_of(tables[row], torch.arange(length), block_size)
        cache.flatten(0, 1)[slots.to(device)] = latents
        rows.append(latents)
    query = randn(rng, device, 3, 5, 40)
    ours = mla_decode(
        query,
        cache,
        tables.to(device),
        torch.tensor(lengths, dtype=torch.int32, device=device),
        latent=32,
        scale=0.25,
    )
    for row, latents in enumerate(rows):
        close(ours[row], mla_reference(query[row], latents, latent=32, scale=0.25))


def test_copy_on_write_copies_whole_blocks_in_all_layers(
    rng: torch.Generator, device: torch.device
) -> None:
    caches = [randn(rng, device, 6, 2, 4, 2, 8) for _ in range(3)]
    before = [cache.clone() for cache in caches]
    copy_blocks(caches, torch.tensor([[0, 4], [2, 5]], device=device))
    for cache, old in zip(caches, before, strict=True):
        assert torch.equal(cache[4], old[0])
        assert torch.equal(cache[5], old[2])
        assert torch.equal(cache[:4], old[:4])
    with pytest.raises(ValueError, match="both source and target"):
        check_pairs(torch.tensor([[0, 4], [4, 5]], device=device))


def test_blocks_come_back_from_the_host_as_they_went(
    rng: torch.Generator, device: torch.device
) -> None:
    caches = [randn(rng, device, 5, 2, 4, 2, 8) for _ in range(2)]
    hosts = [host_cache(cache, 3) for cache in caches]
    for host in hosts:
        host.fill_(float("nan"))
        assert host.is_pinned() == (device.type == "cuda")
    before = [cache.clone() for cache in caches]
    swap_blocks(caches, hosts, torch.tensor([[4, 0], [1, 2]]))
    if device.type == "cuda":
        torch.cuda.synchronize()
    for cache in caches:
        cache[[1, 4]] = float("nan")
    swap_blocks(hosts, caches, torch.tensor([[0, 1], [2, 4]]))
    for cache, host, old in zip(caches, hosts, before, strict=True):
        assert torch.equal(cache[1], old[4])
        assert torch.equal(cache[4], old[1])
        assert host[1].isnan().all(), "only the blocks that were named are written"


def test_rms_norm(rng: torch.Generator, device: torch.device) -> None:
    x, weight = randn(rng, device, 7, 33), randn(rng, device, 33)
    wide = x.double()
    theirs = wide / (wide.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
    close(rms_norm(x, weight), theirs)


def test_rotation_depends_on_distances_only(rng: torch.Generator, device: torch.device) -> None:
    x = randn(rng, device, 2, 3, 16)
    dots = []
    for start in (0, 11):
        places = torch.tensor([start, start + 4], device=device)
        first, second = rotate(x, places)
        dots.append((first * second).sum(dim=-1))
    close(dots[0], dots[1], 1e-4)
    assert torch.equal(rotate(x, torch.zeros(2, device=device)), x)
    angle = torch.tensor(3.0)
    one = rotate(torch.tensor([[[1.0, 0.0]]]), torch.tensor([3]))
    close(one.flatten(), torch.stack((angle.cos(), angle.sin())))


def test_sampler_draws_by_probability(rng: torch.Generator) -> None:
    logits = torch.tensor([0.1, 0.2, 0.7]).log().expand(20_000, 3)
    drawn = torch.bincount(sample(logits, 1.0, rng), minlength=3) / 20_000
    close(drawn, torch.tensor([0.1, 0.2, 0.7]), 0.03)
    assert (sample(logits, 0, None) == 2).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_layers": 0}, "num_layers is 0"),
        ({"num_kv_heads": 4}, "num_heads is 6; it must be a multiple of num_kv_heads"),
        ({"experts_per_token": 6}, "experts_per_token is 6; allowed are 1 to num_experts"),
        ({"experts_per_token": 0}, "experts_per_token is 0"),
    ],
)
def test_shapes_that_cannot_be(changes: dict[str, int], message: str) -> None:
    sizes = {name: getattr(SHAPE, name) for name in SHAPE.__slots__}
    with pytest.raises(ValueError, match=message):
        DecoderShape(**(sizes | changes))
