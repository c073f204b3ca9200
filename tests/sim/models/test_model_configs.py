"""Models of configs: where they come from, what follows from a key, a sentence for each fault."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.sim.models import load_model
from kvsim.sim.models.load import parse_config
from kvsim.sim.models.reader import ConfigReader

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


def parse(config: dict[str, Any]) -> Any:
    return parse_config(ConfigReader(config, "config.json"), "test", "test")


def test_a_config_from_a_folder_or_a_file_or_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    by_folder, by_file = load_model(folder), load_model(folder / "config.json")
    assert by_folder.name == by_file.name == "my-model"
    assert by_folder.groups == load_model("Llama-3.1-8B").groups
    with pytest.raises(ValueError, match=r"did you mean 'llama-3\.1-8b'"):
        load_model("llama-3.1-8")


def test_head_dim_comes_from_the_config_with_a_notice() -> None:
    model = parse(LLAMA | {"head_dim": 96})
    assert model.head_dim == 96
    assert model.kv_bytes_per_token() == 32 * 2 * 8 * 96 * 2
    assert model.notices == ("head_dim is 96 by the config, not hidden / heads = 4096/32 = 128",)
    assert not load_model("llama-3.1-8b").notices


def test_one_kv_head_for_sixty_four() -> None:
    many = parse(LLAMA | {"num_attention_heads": 64, "num_key_value_heads": 64, "head_dim": 128})
    one = parse(LLAMA | {"num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 128})
    assert 64 * one.kv_bytes_per_token() == many.kv_bytes_per_token()


@given(
    st.integers(1, 40), st.sampled_from([1, 2, 4, 8, 16]), st.integers(1, 300), st.integers(1, 300)
)
def test_bytes_are_monotone(layers: int, kv_heads: int, length: int, more: int) -> None:
    shape = LLAMA | {"num_hidden_layers": layers, "num_key_value_heads": kv_heads}
    model = parse(shape)
    assert parse(shape | {"num_hidden_layers": layers + 1}).kv_bytes(length) > model.kv_bytes(
        length
    )
    assert parse(shape | {"num_key_value_heads": 32}).kv_bytes(length) > model.kv_bytes(length)
    assert model.kv_bytes(length + more) > model.kv_bytes(length)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "lama"}, "model_type 'lama' is unknown .did you mean 'llama'"),
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
        ({"torch_dtype": "float7"}, "weight dtype 'float7' is unknown"),
        ({"is_encoder_decoder": True}, "llama is an encoder-decoder"),
        ({"model_type": "t5"}, "t5 is an encoder-decoder"),
        ({"text_config": 3}, "text_config is not an object"),
        ({"layer_types": ["full_attention"]}, "layer_types has 1 entries for 32 layers"),
        ({"num_hidden_layers": 1, "layer_types": ["magic"]}, "unknown: 'magic'"),
        ({"num_kv_shared_layers": 32}, "num_kv_shared_layers=32 leaves none of 32 layers"),
        ({"num_hidden_layers": 10**8}, "num_hidden_layers=100000000 is not in 1..10000"),
        ({"num_local_experts": 8, "num_experts_per_tok": 9}, "9 experts a token out of 8"),
        ({"num_hidden_layers": None, "n_layer": 0}, "n_layer=0 is not in 1"),
        ({"num_experts": 2.5}, "num_experts=2.5 is not a whole number"),
        ({"hidden_size": [7] * 999}, r"hidden_size=\[7, 7.{,60}\.\.\. is not a whole number"),
        ({"quantization_config": 4}, "quantization_config is not an object"),
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


@given(
    st.dictionaries(
        st.sampled_from(
            [
                *LLAMA,
                "head_dim",
                "attention_bias",
                "torch_dtype",
                "text_config",
                "layer_types",
                "sliding_window",
                "num_experts",
                "moe_layer_freq",
                "kv_lora_rank",
                "quantization_config",
            ]
        ),
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
