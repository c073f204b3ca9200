"""The levers' table and the document of a plan."""

from dataclasses import replace

import pytest

from kvsim.sim.hardware import GIB, load_hardware
from kvsim.sim.models import bundled_models, load_model
from kvsim.sim.models.reshape import reshape, with_kv_heads
from kvsim.sim.pool.attention_levers import LENGTHS, lever_rows
from kvsim.sim.pool.document import plan_document
from kvsim.sim.pool.memory_terms import PoolRequest
from kvsim.sim.pool.plan import plan
from kvsim.sim.scenario.scenario import Scenario
from kvsim.sim.scenario.setup import set_up

H100 = load_hardware("h100-sxm")
LLAMA = PoolRequest(load_model("llama-3.1-8b"), H100, max_model_len=131_072)


def test_each_lever_has_its_factor() -> None:
    rows = {(row.section, row.name): row for row in lever_rows(LLAMA)}
    factors = {key: round(row.factor, 2) for key, row in rows.items()}
    assert factors == {
        ("attention", "MHA, 32 KV heads"): 1.0,
        ("attention", "GQA, 8 KV heads"): 4.0,
        ("attention", "MQA, 1 KV head"): 32.0,
        ("attention", "MLA, 576 values"): 14.22,
        ("KV format", "bf16"): 1.0,
        ("KV format", "fp8"): 2.0,
        ("KV format", "int4"): 4.0,
        ("window", "every layer full"): 1.0,
        ("window", "5 of 6 over 1,024"): 5.48,
        ("window", "all over 4,096"): 8.0,
        ("context", "no cap"): 1.0,
        ("context", f"cap at {8192:,}"): 4.0,
    }
    own = rows["attention", "GQA, 8 KV heads"]
    pool = plan(LLAMA)
    assert own.requests == {n: pool.requests_of(n) for n in LENGTHS}
    assert own.request_bytes == 4 * GIB
    assert own.read_s == 4 * GIB / 3.35e12
    cap = rows["context", "cap at 8,192"]
    assert cap.requests[131_072] == cap.requests[8192] == own.requests[8192]


def test_a_given_number_of_blocks_is_an_amount_of_memory() -> None:
    rows = {row.name: row.requests for row in lever_rows(replace(LLAMA, num_blocks=257))}
    assert rows["GQA, 8 KV heads"][2048] == 2  # 257 blocks of 16 tokens, one of them null
    assert rows["MQA, 1 KV head"][2048] == (257 * 8 - 1) // 128
    few = {row.name: row.requests for row in lever_rows(replace(LLAMA, num_blocks=5))}
    assert few["MHA, 32 KV heads"] == dict.fromkeys(LENGTHS, 0)


def test_slots_are_as_long_as_the_requests() -> None:
    rows = {row.name: row.requests for row in lever_rows(replace(LLAMA, engine="llama.cpp"))}
    assert rows["GQA, 8 KV heads"][131_072] == 3
    assert rows["GQA, 8 KV heads"][8192] == 63  # 63.85 GiB
    assert rows["MHA, 32 KV heads"][131_072] == 0


def test_reading_a_cache_of_42_gb_at_2_tb_per_second_takes_21_ms() -> None:
    card = replace(H100, bandwidth_bytes_per_s=2e12, total_bytes=400 * GIB)
    request = PoolRequest(load_model("llama-3.1-70b"), card)
    row = next(row for row in lever_rows(request) if row.name == "GQA, 8 KV heads")
    assert 4 * row.read_s == pytest.approx(0.0215, abs=0.0002), "32K to 128K is four times"


@pytest.mark.parametrize("name", ["gemma-3-27b", "deepseek-v2-lite", "qwen3-next-80b-a3b", "gpt2"])
def test_levers_of_other_models(name: str) -> None:
    card = replace(H100, total_bytes=400 * GIB)
    rows = lever_rows(PoolRequest(load_model(name), card))
    assert len(rows) >= 10
    assert all(row.factor > 0 and row.request_bytes > 0 for row in rows)
    states = load_model(name).kv_bytes_fixed_per_request()
    assert min(row.request_bytes for row in rows) >= states


def test_reshaping_keeps_states_and_parameters() -> None:
    model = load_model("qwen3-next-80b-a3b")
    same = reshape(model, lambda shape, _: shape)
    assert same.groups == model.groups
    assert same.params == model.params


def test_other_kv_heads_as_a_scenario_key() -> None:
    own, eight, all_heads = (
        set_up(Scenario().with_values({"model.num_kv_heads": heads, "engine.kv_memory": "8GiB"}))
        for heads in ("none", 8, 32)
    )
    assert own.pool == eight.pool
    assert own.pool.num_blocks == 4 * all_heads.pool.num_blocks
    assert "derived for llama-3.1-8b of 32 KV heads from llama-3.1-8b" in all_heads.cost.name
    assert any("attended with 32 KV heads" in note for note in all_heads.notes)
    decode_ps = [setup.cost.decode_run(8, 80_000).first_ps for setup in (eight, all_heads)]
    assert decode_ps[0] < decode_ps[1], "a step reads four times the cache"
    latent = with_kv_heads(load_model("deepseek-v2-lite"), 4)
    assert {group.kind for group in latent.groups} == {"full"}
    with pytest.raises(ValueError, match="= 5 does not divide the 32 attention heads"):
        set_up(Scenario().with_values({"model.num_kv_heads": 5}))


@pytest.mark.parametrize("name", bundled_models())
def test_the_document_agrees_with_itself(name: str) -> None:
    request = PoolRequest(load_model(name), H100, num_blocks=50_000, swap_bytes=4 * GIB, tp=1)
    pool = plan(request)
    document = plan_document(request, pool)
    assert document.block_size is not None
    assert document.pool_tokens == document.num_blocks * document.block_size
    assert document.kv_pool_bytes == document.num_blocks * document.block_bytes
    assert document.cpu_blocks == 4 * GIB // document.block_bytes
    assert sum(g.bytes_at_max_model_len for g in document.groups) == pytest.approx(
        document.kv_bytes_per_request, abs=len(document.groups)
    )
    assert document.kv_bytes_per_token.per_rank == document.kv_bytes_per_token.total
    assert document.fits == (document.max_model_len_that_fits >= request.model_len)
    assert bool(document.levers) <= (not document.fits)


def test_bytes_over_all_ranks_count_copies() -> None:
    def token(name: str, tp: int) -> tuple[int, int]:
        request = PoolRequest(load_model(name), H100, num_blocks=1000, tp=tp)
        document = plan_document(request, plan(request)).kv_bytes_per_token
        return document.per_rank, document.total

    assert token("llama-3.1-8b", 8) == (16_384, 131_072)
    assert token("llama-3.1-8b", 16) == (16_384, 262_144)
    assert token("deepseek-v3", 8) == (70_272, 8 * 70_272)


@pytest.mark.parametrize(
    ("model", "options", "formula"),
    [
        ("llama-3.1-8b", {}, "32 layers x 8 KV heads x (128 + 128) x 2 B"),
        ("llama-3.1-8b", {"tp": 2}, "32 layers x 4 of 8 KV heads x (128 + 128) x 2 B"),
        ("deepseek-v3", {}, "61 layers x 576 values x 2 B (one latent for all heads)"),
        (
            "gemma-3-27b",
            {"kv_dtype": "q8_0"},
            "(10 full layers x 16 KV heads x (128 + 128) + 52 sliding layers x 16 KV heads x"
            " (128 + 128)) x 1 B + 2 B of scale for 32 values",
        ),
    ],
)
def test_formulas_have_their_numbers(model: str, options: dict[str, object], formula: str) -> None:
    request = replace(
        PoolRequest(load_model(model), H100, num_blocks=1000),
        **options,  # type: ignore[arg-type]
    )
    document = plan_document(request, plan(request))
    assert document.kv_bytes_per_token.formula == formula
