"""Pipeline ranks: vLLM's uneven split, nothing lost, and what cannot be split."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.sim.hardware import load_hardware
from kvsim.sim.models import bundled_models, load_model
from kvsim.sim.models.stages import expand_latents_of, pipeline_stages, stage_sizes
from kvsim.sim.pool.memory_terms import PoolRequest
from kvsim.sim.pool.plan import plan

H100 = load_hardware("h100-sxm")
SPLITS = [name for name in bundled_models() if name != "gemma-3n-e4b"]


@pytest.mark.parametrize(
    ("layers", "pp", "sizes"),
    [
        (32, 4, (8, 8, 8, 8)),
        (61, 2, (31, 30)),
        (61, 4, (15, 15, 16, 15)),
        (22, 4, (5, 6, 6, 5)),
        (5, 3, (2, 2, 1)),
    ],
)
def test_layers_left_over_go_before_the_last_rank(
    layers: int, pp: int, sizes: tuple[int, ...]
) -> None:
    assert stage_sizes(layers, pp) == sizes


@given(st.sampled_from(SPLITS), st.integers(1, 12))
def test_nothing_is_lost_between_ranks(name: str, pp: int) -> None:
    model = load_model(name)
    stages = pipeline_stages(model, pp)
    copied = model.params.embedding if model.tied_embeddings and pp > 1 else 0
    assert sum(stage.model.num_params for stage in stages) == model.num_params + copied
    for length in (1, 5000):
        assert sum(s.model.kv_bytes(length) for s in stages) == model.kv_bytes(length)
    assert [stage.first for stage in stages[1:]] == [stage.last + 1 for stage in stages[:-1]]


def test_what_cannot_be_split() -> None:
    with pytest.raises(ValueError, match=r"pp=33 is not in 1\.\.32, the number of layers"):
        pipeline_stages(load_model("llama-3.1-8b"), 33)
    with pytest.raises(ValueError, match="read the KV cache of earlier layers"):
        pipeline_stages(load_model("gemma-3n-e4b"), 2)


def test_the_binding_rank_is_the_one_with_the_fewest_blocks() -> None:
    request = PoolRequest(load_model("llama-3.1-70b"), H100, pp=3, tp=2)
    pool = plan(request)
    counts = [share.num_blocks for share in pool.shares]
    assert counts == sorted(counts, key=lambda n: n or 0)
    assert pool.num_blocks == counts[0]
    assert pool.binding_rank() == "pipeline rank 0 of 3 (layers 0-26)"
    assert [share.last_layer - share.first_layer + 1 for share in pool.shares] == [27, 27, 26]
    assert pool.block_bytes == 16 * 27 * 4 * 256 * 2
    last = plan(PoolRequest(load_model("llama-3.1-70b"), H100, pp=4, max_num_seqs=1024))
    assert last.binding_rank() == "pipeline rank 3 of 4 (layers 60-79)", "it has the sampler"
    assert plan(PoolRequest(load_model("llama-3.1-8b"), H100)).binding_rank() == "all ranks alike"


@given(st.sampled_from(SPLITS), st.integers(2, 8))
def test_a_block_of_a_rank_holds_its_layers_of_the_fullest_table(name: str, pp: int) -> None:
    model = load_model(name)
    pool = plan(PoolRequest(model, H100, pp=pp, num_blocks=100))
    height = {share.block_bytes for share in pool.shares}
    assert max(height) <= pool.layout.block_bytes
    assert sum(share.block_bytes for share in pool.shares) >= pool.layout.block_bytes
    assert max(height) * pp >= pool.layout.block_bytes


def test_expanded_latents() -> None:
    model = expand_latents_of(load_model("deepseek-v3"))
    assert model.kv_bytes_per_token() == 4_997_120
    assert model.kv_bytes_per_token(tp=8) * 8 == 4_997_120
    assert sum(s.model.kv_bytes_per_token() for s in pipeline_stages(model, 4)) == 4_997_120
    assert "expanded" in model.notices[-1]
    with pytest.raises(ValueError, match=r"llama-3\.1-8b has no latent attention"):
        expand_latents_of(load_model("llama-3.1-8b"))


@pytest.mark.parametrize("dtype", ["bf16", "fp8", "fp8_per_head", "q8_0", "q4_0", "int4_per_head"])
def test_scales_are_a_term_of_their_own(dtype: str) -> None:
    model = load_model("llama-3.1-8b")
    payload = {"bf16": 131_072, "fp8": 65_536, "fp8_per_head": 65_536, "q8_0": 65_536}
    scales = {"fp8_per_head": 32 * 2 * 8 * 4, "int4_per_head": 2048, "q8_0": 4096, "q4_0": 4096}
    assert model.kv_scale_bytes_per_token(dtype) == scales.get(dtype, 0)
    rest = model.kv_bytes_per_token(dtype) - model.kv_scale_bytes_per_token(dtype)
    assert rest == payload.get(dtype, 32_768)
    latent = load_model("deepseek-v3")
    assert latent.kv_scale_bytes_per_token("fp8_ds_mla") == 61 * 4 * 4
    assert math.isclose(model.kv_bytes_per_token("q8_0") / 65_536, 1.0625)
