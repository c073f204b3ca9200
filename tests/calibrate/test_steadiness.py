"""What is said of the machine, from the repeats of each point."""

from __future__ import annotations

from typing import Any

from kvsim.calibrate.steadiness import spread_of_repeats, steadiness


def measurement(*times_us: list[float]) -> dict[str, Any]:
    """As a profile holds it."""
    points = [
        {"block": "layer", "role": "fit", "loads": {"tokens": place}, "times_us": times,
         "rotated_bytes": 0, "discarded": 0, "anchor_us": 1.0, "spread": 0.0}
        for place, times in enumerate(times_us)
    ]  # fmt: skip
    return {"points": points}


def test_few_repeats_have_a_spread_and_its_cause_is_a_guess() -> None:
    noisy = [915.0, 729.0, 1006.0]
    assert spread_of_repeats(measurement(noisy)) == (
        "30.3 % apart at the median point; over 10 % at 100 % of the points: perhaps other work "
        "beside"
    )
    calm = [100.0, 101.0, 102.0]
    assert spread_of_repeats(measurement(calm, calm, calm, calm, noisy)) == (
        "2.0 % apart at the median point"
    )


def test_anchors_that_were_not_read_say_nothing_of_the_clock() -> None:
    kept = measurement([100.0], [100.0])
    kept["points"][0]["anchor_us"] = 0.0
    assert steadiness(kept).endswith("from point to point the clock moved by 0 %")
