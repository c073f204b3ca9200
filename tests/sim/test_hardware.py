"""Cards: what the driver reports, peaks by dtype, server defaults."""

import dataclasses
import json
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
        ValueError, match=r"'h100-xsm' is not bundled; nearest is 'h100-sxm'; bundled"
    ):
        load_hardware("h100-xsm")
    with pytest.raises(ValueError, match="bandwidth_bytes_per_s=0 must be > 0"):
        dataclasses.replace(load_hardware("h100-sxm"), bandwidth_bytes_per_s=0).check()


CARD: dict[str, Any] = {
    "total_mib": 49_152,
    "bandwidth_gb_per_s": 864,
    "peak_tflop_per_s": {"bf16": 100},
}


def test_a_card_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "my-card.json"
    file.write_text(json.dumps(CARD), encoding="utf-8")
    card = load_hardware(str(file))
    assert (card.name, card.kind, card.total_gib) == ("my-card", "gpu", 48)
    assert (card.bandwidth_bytes_per_s, card.peak("fp16"), card.link) == (864e9, 100e12, "none")
    card.check()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total_mib": None}, "'total_mib' is missing"),
        ({"total_mib": "48 GB"}, "total_mib='48 GB' is not a whole number"),
        ({"bandwidth_gb_per_s": 0}, "bandwidth_gb_per_s=0 is not above 0"),
        ({"bandwidth_gb_per_s": [1]}, r"bandwidth_gb_per_s=\[1\] is not a finite number"),
        ({"peak_tflop_per_s": {}}, "'peak_tflop_per_s' must be an object such as"),
        ({"peak_tflop_per_s": {"bf16": -1}}, "bf16=-1 is not above 0"),
        ({"kind": "tpu"}, "kind='tpu' is not one of gpu, apple, cpu"),
        ({"name": "h200"}, "'h200' is a bundled card"),
    ],
)
def test_a_card_file_that_is_wrong(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    file = tmp_path / "my-card.json"
    file.write_text(json.dumps(CARD | changes), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        load_hardware(str(file))
