"""Cards: what the driver reports, peaks by dtype, server defaults."""

import dataclasses
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvsim.sim.hardware import bundled_hardware, load_hardware, server_defaults


def test_the_cards_people_ask_for() -> None:
    asked = (
        "a10g a100-40gb a100-sxm h100-pcie h100-sxm h200 b200 l4 l40s rtx-3090 rtx-4090 rtx-5090"
        " rtx-pro-6000 a6000 t4 v100-sxm mi300x mi325x m2-ultra-192gb cpu-xeon-8480"
    )
    assert set(asked.split()) <= set(bundled_hardware())


def test_every_card_has_numbers_and_a_source() -> None:
    for name in bundled_hardware():
        card = load_hardware(name)
        card.check()
        assert card.source, name
        assert card.peak("bf16") > 0


def test_memory_is_what_the_driver_reports_not_the_box() -> None:
    assert load_hardware("h100-sxm").total_gib == pytest.approx(79.19, abs=0.01)
    assert load_hardware("a100-sxm").total_gib == pytest.approx(79.25, abs=0.01)
    assert load_hardware("a100-40gb").total_gib < 40


def test_server_defaults_of_vllm() -> None:
    assert server_defaults(load_hardware("h100-sxm")) == (1024, 8192)
    assert server_defaults(load_hardware("h200")) == (1024, 8192)
    for small in ("a100-sxm", "a100-40gb", "l4", "rtx-4090", "m3-ultra-512gb", "cpu-xeon-8480"):
        assert server_defaults(load_hardware(small)) == (256, 2048), small


def test_a_dtype_without_units_runs_at_the_next_wider_one() -> None:
    a100 = load_hardware("a100-sxm")
    assert a100.peak("fp8") == a100.peak("bf16") == 312e12
    t4 = load_hardware("t4")
    assert t4.peak("bf16") == t4.peak("fp16") == t4.peak("int4") == 65e12
    with pytest.raises(ValueError, match="has no peak rate for 'bf16'; it has int8"):
        dataclasses.replace(a100, peak_flop_per_s={"int8": 1.0}).peak("bf16")


def test_errors_name_the_choices() -> None:
    with pytest.raises(
        ValueError,
        match=r"'h100-xsm' is neither a file nor .* mean 'h100-sxm'.*bundled",
    ):
        load_hardware("h100-xsm")
    with pytest.raises(ValueError, match=r"did you mean 'h200'.*; bundled"):
        load_hardware("h200-sxm")  # one letter from another card
    with pytest.raises(ValueError, match=r"bandwidth_bytes_per_s=0 must be > 0"):
        dataclasses.replace(load_hardware("h100-sxm"), bandwidth_bytes_per_s=0).check()


CARD = {"total_mib": 49152, "bandwidth_gb_per_s": 864, "peak_tflop_per_s": {"bf16": 181}}


def test_a_card_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "my-card.json"
    file.write_text(json.dumps(CARD))
    card = load_hardware(str(file))
    assert (card.name, card.product, card.kind, card.link) == ("my-card", "my-card", "gpu", "none")
    assert (card.total_gib, card.peak("bf16")) == (48, 181e12)
    file.write_text(json.dumps({**CARD, "name": "l48", "link_gb_per_s": 32, "kind": "cpu"}))
    card = load_hardware(str(file))
    assert (card.name, card.kind, card.link_bytes_per_s) == ("l48", "cpu", 32e9)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("[", "c.json: not JSON"),
        ([], "c.json: holds no table"),
        ({**CARD, "total_mb": 3}, "key 'total_mb' is unknown .did you mean 'total_mib'.*; choices"),
        ({**CARD, "total_mib": "3"}, "total_mib = '3' must be a number from 0"),
        ({**CARD, "total_mib": 0}, "total_bytes=0 must be > 0"),
        ({**CARD, "product": 3}, "product = 3 must be text"),
        ({**CARD, "kind": "tpu"}, "kind = 'tpu'; kinds are gpu, apple, cpu"),
        ({**CARD, "peak_tflop_per_s": {}}, "peak_tflop_per_s must be a table"),
        ({"total_mib": 3}, "'bandwidth_gb_per_s' is missing; needed: total_mib"),
        ({**CARD, "name": "h100-sxm"}, "'h100-sxm' is a bundled card; give it another name"),
        (
            {"format": "kvsim-profile/1", "hardware": "x"},
            "profile of 'x', which is not a bundled card",
        ),
        ({"format": "kvsim-profile/1", "card": [1]}, r"card = \[1\] must be a table"),
        ({"format": "kvsim-profile/1", "card": {"a": 1}}, "c.json: card: key 'a' is unknown"),
    ],
)
def test_errors_of_a_card_file_name_the_key(tmp_path: Path, row: object, message: str) -> None:
    file = tmp_path / "c.json"
    file.write_text(row if isinstance(row, str) else json.dumps(row))
    with pytest.raises(ValueError, match=message):
        load_hardware(str(file))


def test_a_profile_is_the_card_it_was_measured_on(tmp_path: Path) -> None:
    """The bundled one, or the one that the file holds; either way its costs come with it."""
    file = tmp_path / "p.json"
    file.write_text(json.dumps({"format": "kvsim-profile/1", "hardware": "l4"}))
    card = load_hardware(str(file))
    assert card == replace(load_hardware("l4"), profile=str(file))
    file.write_text(json.dumps({"format": "kvsim-profile/1", "hardware": "mine", "card": CARD}))
    card = load_hardware(str(file))
    assert (card.name, card.total_gib, card.profile) == ("mine", 48, str(file))


@pytest.mark.parametrize("odd", [None, [], 3, 1.5, b"x"])
def test_what_is_no_name_is_told(odd: Any) -> None:
    with pytest.raises(ValueError, match=r"hardware is .*; it must be "):
        load_hardware(odd)
