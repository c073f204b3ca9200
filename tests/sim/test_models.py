"""Models: exact bytes and parameter counts, and a sentence for every bad config."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvsim.sim.models import bundled_models, load_model
from kvsim.sim.models.load import parse_config
from kvsim.sim.models.reader import ConfigReader

GIB = 1 << 30
LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize(
    ("name", "params", "kv_bytes"),
    [
        ("llama-3.1-8b", 8_030_261_248, 131_072),
        ("llama-2-7b", 6_738_415_616, 524_288),
        ("mistral-7b", 7_241_732_096, 131_072),
        ("qwen2.5-7b", 7_615_616_512, 57_344),
        ("qwen2.5-0.5b", 494_032_768, 12_288),
        ("opt-13b", 12_853_473_280, 819_200),
    ],
)
def test_exact_counts(name: str, params: int, kv_bytes: int) -> None:
    model = load_model(name)
    assert model.num_params == params
    assert model.kv_bytes_per_token() == kv_bytes


def test_sizes_people_quote() -> None:
    assert load_model("llama-3.1-8b").kv_bytes(131_072) == 16 * GIB
    assert load_model("qwen2.5-0.5b").kv_bytes(8192) == 96 << 20
    assert 16 * load_model("qwen2.5-0.5b").kv_bytes(8192) == 3 * GIB // 2
    assert load_model("llama-3.1-8b").weights_bytes() == 2 * 8_030_261_248


def test_every_bundled_model_loads_and_has_a_source() -> None:
    for name in bundled_models():
        model = load_model(name)
        assert model.name == name
        assert model.source.startswith("http"), name
        assert model.max_position >= 1024


def test_a_config_from_a_folder_or_a_file_or_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    by_folder, by_file = load_model(folder), load_model(folder / "config.json")
    assert by_folder.name == by_file.name == "my-model"
    assert by_folder.groups == load_model("Llama-3.1-8B").groups
    with pytest.raises(ValueError, match=r"nearest is 'llama-3\.1-8b'"):
        load_model("llama-3.1-8")


def test_head_dim_comes_from_the_config_with_a_notice() -> None:
    model = parse(LLAMA | {"head_dim": 96})
    assert model.head_dim == 96
    assert model.kv_bytes_per_token() == 32 * 2 * 8 * 96 * 2
    assert model.notices == ("head_dim is 96 by the config, not hidden / heads = 4096/32 = 128",)
    assert not load_model("llama-3.1-8b").notices


def test_tensor_parallel_ranks_split_heads_down_to_one_then_copy() -> None:
    model = load_model("llama-3.1-8b")
    per_rank = [model.kv_bytes_per_token(tp=tp) for tp in (1, 2, 4, 8, 16, 32)]
    assert per_rank == [131_072, 65_536, 32_768, 16_384, 16_384, 16_384]
    assert 8 * model.weights_bytes(tp=8) >= model.weights_bytes()
    with pytest.raises(ValueError, match="tp=3 does not divide the 32 attention heads"):
        model.check_tp(3)


def test_kv_formats_halve_and_quarter_the_payload() -> None:
    model = load_model("llama-3.1-8b")
    assert [model.kv_bytes_per_token(d) for d in ("fp32", "bf16", "fp8", "int8", "int4")] == [
        262_144, 131_072, 65_536, 65_536, 32_768,
    ]  # fmt: skip
    values = 65_536
    assert model.kv_bytes_per_token("q8_0") == values * 17 // 16
    assert model.kv_bytes_per_token("q4_0") == values * 9 // 16
    assert model.kv_bytes_per_token("fp8_per_head") == values + 32 * 2 * 8 * 4


def parse(config: dict[str, Any]) -> Any:
    return parse_config(ConfigReader(config, "config.json"), "test", "test")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "lama"}, "model_type='lama' is not known; nearest is 'llama'"),
        ({"model_type": None}, "'model_type' is missing"),
        ({"model_type": 5}, "model_type=5 is not a string"),
        ({"hidden_size": None}, "'hidden_size' is missing"),
        ({"hidden_size": -1}, "hidden_size=-1 is not in 1"),
        ({"hidden_size": 4096.5}, "hidden_size=4096.5 is not a whole number"),
        ({"hidden_size": "4096"}, "hidden_size='4096' is not a whole number"),
        ({"hidden_size": 10**30}, "is not in 1..1000000000"),
        ({"hidden_size": 4097}, "hidden_size=4097 is not a multiple of num_attention_heads=32"),
        ({"num_key_value_heads": 5}, "is not a multiple of num_key_value_heads=5"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings=1 is not true or false"),
        ({"torch_dtype": "float7"}, "weight dtype 'float7' is not known"),
        ({"is_encoder_decoder": True}, "llama is an encoder-decoder"),
        ({"model_type": "t5"}, "t5 is an encoder-decoder"),
        ({"text_config": 3}, "text_config is not an object"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(LLAMA | changes)


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff\xfe", b'{"a": NaN}', b"1" * 5000])
def test_files_that_are_no_config(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.json"):
        load_model(file)


def test_a_folder_without_a_config(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        load_model(tmp_path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from([*LLAMA, "head_dim", "attention_bias", "torch_dtype", "text_config"]),
        json_values,
    )
)
def test_garbage_gives_a_sentence_or_a_model(changes: dict[str, Any]) -> None:
    try:
        model = parse(LLAMA | changes)
    except ValueError as error:
        assert str(error)  # noqa: PT017
    else:
        assert model.num_params > 0
