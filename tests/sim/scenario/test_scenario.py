"""Scenario files, presets, settings and their errors."""

import tomllib
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest

from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig
from kvsim.sim.scenario.loader import (
    load_scenario,
    parse_settings,
    scenario_from_dict,
    scenario_to_dict,
    scenario_to_toml,
)
from kvsim.sim.scenario.preset import load_preset, preset_names, verification
from kvsim.sim.scenario.scenario import DEFAULT_PRESET, Scenario
from kvsim.sim.scenario.setup import set_up


def config_of(scenario: Scenario) -> SchedulerConfig:
    return scenario.scheduler_config(
        block_size=16,
        num_gpu_blocks=1000,
        max_num_seqs=256,
        max_num_batched_tokens=2048,
        max_model_len=4096,
        async_scheduling=True,
    )


def test_the_default_preset_is_among_the_presets() -> None:
    assert DEFAULT_PRESET in preset_names()
    assert Scenario.load().preset == DEFAULT_PRESET


# Rows of the engine's history: what differs between versions, as options.
OLD = {
    "allocator.freed_blocks_without_key": "back",
    "batching.scheduler_reserve_full_isl": False,
    "batching.lone_request_exempt_from_threshold": False,
    "preemption.victim_moves_position": "scheduled",
    "retention.prefix_cache_retention_interval": None,
    "async_scheduling": False,
}
NEW = {
    "allocator.freed_blocks_without_key": "front",
    "batching.scheduler_reserve_full_isl": True,
    "batching.lone_request_exempt_from_threshold": True,
    "preemption.victim_moves_position": "always",
    "retention.prefix_cache_retention_interval": 0,
    "batching.keep_room_for_last_token": True,
}
ROWS = {
    "vllm-0.32": {**NEW, "async_scheduling": True},
    "vllm-0.32-sync": {**NEW, "async_scheduling": False},
    "vllm-0.12": {**OLD, "batching.keep_room_for_last_token": True},
    "vllm-0.8": {**OLD, "batching.keep_room_for_last_token": False},
}


@pytest.mark.parametrize("preset", ROWS)
def test_presets_are_rows_of_the_engine_history(preset: str) -> None:
    config = config_of(load_scenario(preset))
    assert {path: attrgetter(path)(config) for path in ROWS[preset]} == ROWS[preset]
    assert (config.queue.policy, config.batching.watermark) == ("fcfs", 0.0)


def test_every_preset_says_how_it_was_verified() -> None:
    for name in preset_names():
        preset = load_preset(name)
        assert preset.engine
        recorded = name.startswith(("vllm-0.32", "sglang"))
        assert ("against recorded logs" in preset.verified) == recorded, name
        assert ("read from" in preset.verified) != name.startswith("vllm-0.32"), name
    assert verification(Scenario()) is None
    assert verification(Scenario.load()) == load_preset(DEFAULT_PRESET).verified


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"queue.policy": "priority", "batching.watermark": 0.3}, "recorded logs"),
        ({"engine.block_size": 64, "engine.max_num_seqs": 3}, "recorded logs"),
        ({"batching.policy": "iteration-level"}, "logs; not with batching.policy = iteration-l"),
        ({"batching.policy": "os:abort"}, "; not with batching.policy = os:abort"),
        (
            {"allocator.kind": "contiguous", "allocator.placement": "first-fit"},
            "logs; not with allocator.kind = contiguous, allocator.placement = first-fit",
        ),
    ],
)
def test_rules_that_the_logs_do_not_cover_are_named(
    settings: dict[str, object], words: str
) -> None:
    verified = verification(Scenario.load().with_values(settings))
    assert verified is not None
    assert words in verified
    assert ("not with" in verified) == ("not with" in words)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("queue.policy=priority", "queue.policy = priority: preset vllm-0.8 stands for vLLM 0.8.5"),
        ("engine.async_scheduling=true", "engine.async_scheduling = true: preset vllm-0.8"),
        ("engine.async_scheduling=none", "engine.async_scheduling = none: preset vllm-0.8"),
    ],
)
def test_a_preset_refuses_what_its_engine_lacks(setting: str, message: str) -> None:
    values = parse_settings([setting])
    with pytest.raises(ValueError, match=message):
        set_up(Scenario.load("vllm-0.8").with_values(values))
    set_up(Scenario.load("vllm-0.12").with_values(values))
    set_up(Scenario().with_values(values))


def test_what_a_preset_lacks_is_written_with_keys_and_values_that_exist() -> None:
    for name in preset_names():
        for path, lack in load_preset(name).lacks.items():
            for value in lack.values:
                Scenario().with_values({path: value})


def test_open_keys_follow_the_hardware_and_given_ones_do_not() -> None:
    config = config_of(Scenario())
    assert (config.max_num_seqs, config.max_num_batched_tokens) == (256, 2048)
    assert config.async_scheduling is True
    given = Scenario().with_values(
        {"engine.max_num_seqs": 8, "engine.block_size": 32, "engine.max_model_len": 100}
    )
    config = config_of(given)
    assert (config.max_num_seqs, config.block_size, config.max_model_len) == (8, 32, 100)


def test_seats_left_open_never_exceed_the_budget() -> None:
    config = config_of(Scenario().with_values({"engine.max_num_batched_tokens": 64}))
    assert (config.max_num_seqs, config.max_num_batched_tokens) == (64, 64)
    both = {"engine.max_num_batched_tokens": 64, "engine.max_num_seqs": 65}
    with pytest.raises(ValueError, match=r"max_num_batched_tokens \(=64\) must be at least"):
        config_of(Scenario().with_values(both))


def test_chunking_off_needs_a_budget_of_the_model_length() -> None:
    scenario = Scenario().with_values({"engine.enable_chunked_prefill": False})
    with pytest.raises(ValueError, match=r"needs engine.max_num_batched_tokens \(=2048\)"):
        config_of(scenario)


def test_prefix_switches_agree_or_are_refused() -> None:
    assert config_of(Scenario()).enable_prefix_caching
    none = Scenario().with_values({"allocator.prefix": "none"})
    assert not config_of(none).enable_prefix_caching
    off = {"engine.enable_prefix_caching": False}
    assert not config_of(Scenario().with_values(off)).enable_prefix_caching
    both = Scenario().with_values({**off, "allocator.prefix": "hash"})
    with pytest.raises(ValueError, match="contradicts engine"):
        config_of(both)


REFUSED_BY_THE_ENGINE: list[tuple[dict[str, object], str]] = [
    (
        {"engine.max_num_batched_tokens": 64, "engine.max_num_seqs": 65},
        r"max_num_batched_tokens \(=64\) must be at least engine.max_num_seqs \(=65\)",
    ),
    (
        {"batching.long_prefill_token_threshold": 513, "engine.max_model_len": 512},
        r"long_prefill_token_threshold \(=513\) is above engine.max_model_len \(=512\)",
    ),
    (
        {"retention.prefix_cache_retention_interval": 64},
        r"prefix_cache_retention_interval \(=64\) says which .* this model has none: set it to 0",
    ),
    (
        {"retention.prefix_cache_retention_interval": 24, "engine.kv_groups": ["full", 64]},
        r"prefix_cache_retention_interval \(=24\) must be a multiple of engine.block_size \(=16\)",
    ),
]


@pytest.mark.parametrize(("values", "message"), REFUSED_BY_THE_ENGINE)
def test_what_the_engine_refuses(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config_of(Scenario().with_values(values))


def test_the_engine_starts_at_its_limits() -> None:
    values: dict[str, object] = {
        "engine.max_num_batched_tokens": 65,
        "engine.max_num_seqs": 65,
        "engine.max_model_len": 512,
        "engine.kv_groups": [64, "full"],
        "batching.long_prefill_token_threshold": 512,
        "retention.prefix_cache_retention_interval": 48,
    }
    config_of(Scenario().with_values(values))
    other: dict[str, object] = {"batching.policy": "no-evict", "engine.max_model_len": 512}
    config_of(Scenario().with_values(other | {"batching.long_prefill_token_threshold": 513}))


def test_kv_groups_are_the_models_or_given() -> None:
    scenario = Scenario().with_values({"engine.kv_groups": ["full", 1024]})
    assert config_of(scenario).kv_groups == (KVGroup(), KVGroup(1024))
    assert config_of(Scenario()).kv_groups == (KVGroup(),)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "engine.blok_size=3",
            r"engine.blok_size is unknown \(did you mean 'engine.block_size'",
        ),
        ("engine.watermark=0.1", r"did you mean 'batching.watermark'\?"),
        ("engine.kv_cache_memory_bytes=3", r"did you mean 'engine.kv_memory'\?"),
        ("engin.block_size=16", r"table 'engin' is unknown \(did you mean 'engine'\?"),
        ("engine.block_size=0", "engine.block_size = 0: expected a whole number >= 1"),
        ("engine.block_size=1.5", "engine.block_size = 1.5: expected a whole number"),
        ("engine.block_size=true", "engine.block_size = True: expected a whole number"),
        ("engine.num_gpu_blocks_override=1", "expected a whole number >= 2"),
        ("engine.enable_prefix_caching=1", "= 1: expected true or false"),
        ("engine.gpu_memory_utilization=1.1", "expected a fraction above 0"),
        ("engine.kv_memory=12XB", "engine.kv_memory = '12XB': expected a size such as"),
        ("engine.kv_memory=0", "expected a size above 0"),
        ("engine.kv_groups=[1, 2.0]", r"expected a list of \"full\" and window sizes"),
        ("slo.ttft=2", "slo.ttft = 2: has no unit: expected a time with its unit"),
        (
            "eviction.policy=lur",
            "eviction.policy = 'lur' .did you mean 'lru'",
        ),
        ("batching.policy=dynamic", "expected one of mixed-running-first, iteration-level"),
        ("preemption.mode=spill", "expected 'recompute' or 'swap' or 'swap-groups'"),
        ("preemption.swap_space=none", "expected a size such as"),
        ("preemption.victim=nobody", "expected one of by-queue, last, first, least-progress"),
        ("predictor.kind=clever", "expected one of none"),
        ("predictor.error=-0.1", "expected a number >= 0"),
        ("predictor.error=nan", "expected a number >= 0"),
        ("predictor.quantile=0", "expected a fraction above 0, at most 1"),
        ("predictor.bucket_bounds=[]", "expected a list of increasing whole numbers above 0"),
        ("predictor.bucket_bounds=[16, 16]", "expected a list of increasing whole numbers"),
        ("predictor.bucket_bounds=[0, 16]", "expected a list of increasing whole numbers"),
        ("queue.policy=lifo", "expected one of fcfs, priority"),
        ("allocator.kind=slab", "expected one of paged, contiguous"),
        ("allocator.prefix=tree", "expected 'auto' or 'hash' or 'radix' or 'none'"),
        ("block_size=16", r"not of the form table.key \(did you mean 'engine.block_size'\?"),
        ("engine.block_size", r"--set 'engine.block_size' is not of the form table.key=value"),
        ("model.name=", "expected a bundled model name"),
        ("a.b=1\nx=2", r"--set 'a.b=1\\nx=2' has several lines: give --set for each key"),
        ("engine.block_size=" + "9" * 5000, r"--set 'engine.block_size=99.*\.\.\. has too many di"),
        ("engine.block_size=" + "9" * 99, r"= 9{60}\.\.\.: expected .* >= 1, at most 2\^63 - 1"),
        ("engine.block_size=0x" + "f" * 5000, "= a number of thousands of digits: expected a whol"),
        ('slo.ttft="' + "9" * 5000 + 's"', "is too much: expected a time with its unit"),
        ("engine.kv_memory=9999999EB", "expected a size"),
        ("engine.kv_memory=99999999999TB", "is too much: expected a size"),
    ],
)
def test_errors_name_place_value_and_choices(setting: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Scenario().with_values(parse_settings([setting]))


def test_settings_are_toml_values_or_text() -> None:
    texts = ["a.b=16", "a.c=true", "a.d=12GiB", 'a.e="x y"', "a.f = [1, 2]", "a.g=model=x"]
    assert parse_settings(texts) == {
        "a.b": 16,
        "a.c": True,
        "a.d": "12GiB",
        "a.e": "x y",
        "a.f": [1, 2],
        "a.g": "model=x",
    }


def test_values_from_numpy_and_tuples_are_plain_ones() -> None:
    plain: dict[str, object] = {
        "engine.max_num_seqs": 8,
        "engine.gpu_memory_utilization": 0.5,
        "engine.enable_prefix_caching": True,
        "predictor.bucket_bounds": [128, 512],
    }
    odd: dict[str, object] = {
        "engine.max_num_seqs": np.int32(8),
        "engine.gpu_memory_utilization": np.float32(0.5),
        "engine.enable_prefix_caching": np.bool_(True),
        "predictor.bucket_bounds": (128, 512),
    }
    scenario = Scenario.load("vllm-0.32")
    assert scenario.with_values(odd) == scenario.with_values(plain)
    assert type(scenario.with_values(odd).engine.max_num_seqs) is int
    with pytest.raises(ValueError, match="expected a whole number"):
        scenario.with_values({"engine.max_num_seqs": np.array([8, 16])})


def test_a_file_stands_on_its_preset(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('preset = "vllm-0.12"\n[engine]\nkv_memory = "12GB"\n[slo]\nttft = "2s"\n')
    scenario = load_scenario(path)
    assert scenario.engine.kv_memory_bytes == 12 * 10**9
    assert scenario.slo.ttft_ps == 2 * 10**12
    assert scenario.allocator.freed_blocks_without_key == "back"
    path.write_text("[engine]\nblock_size = 32\n")
    assert load_scenario(path).preset == DEFAULT_PRESET


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("engine = 3", r"mine.toml: engine = 3 must be a table \[engine\]"),
        ("[engine", "mine.toml: not TOML: "),
        ("[engine]\nblock_size = " + "9" * 5000, "mine.toml: a number in it has too many digits"),
        (
            'preset = "vllm-0.13"',
            "preset 'vllm-0.13' is unknown .did you mean 'vllm-0.32'.*choices: fastertransformer, ",
        ),
        ("preset = 3", "preset 3 is unknown"),
        ("[engine]\nblocksize = 3", "mine.toml: key engine.blocksize is unknown .did you mean"),
    ],
)
def test_file_errors_name_the_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_scenario(path)


def test_neither_file_nor_preset() -> None:
    with pytest.raises(ValueError, match=r"neither a file nor a preset .did you mean 'vllm-0.32'"):
        load_scenario("vllm-0.33")


def test_scenarios_survive_dict_and_toml(tmp_path: Path) -> None:
    values: dict[str, object] = {
        "engine.kv_memory": "12GB",
        "engine.kv_groups": ["full", 1024],
        "slo.tpot": "50ms",
        "predictor.bucket_bounds": [10, 200],
        "predictor.error": 0.25,
        "model.name": 'odd "name" \\ here',
        "retention.prefix_cache_retention_interval": "none",
    }
    for name in preset_names():
        for scenario in (load_scenario(name), load_scenario(name).with_values(values)):
            assert scenario_from_dict(scenario_to_dict(scenario)) == scenario
            path = tmp_path / "again.toml"
            path.write_text(scenario_to_toml(scenario))
            assert load_scenario(path) == scenario
    assert scenario_from_dict(tomllib.loads(scenario_to_toml(Scenario()))) == Scenario()
