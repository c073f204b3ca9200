"""The cache lab's tables on a made-up clock, and its decoder's calls on real kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
import torch

from kvsim.calibrate.cache_lab_page import lab_page
from kvsim.calibrate.measure.cache_lab import (
    CacheRow,
    DecoderLab,
    StepRow,
    blocks_needed,
    cache_table,
    expected_s,
    growth_by_bytes,
    step_table,
)
from kvsim.calibrate.measure.timing import HostTimer
from kvsim.calibrate.validate.conversation import conversation
from kvsim.cli.calibrate.cache_lab import lab_lines
from kvsim.kernels.decoder import Decoder
from kvsim.kernels.shape import DecoderShape
from kvsim.sim.cost.step_cost import LinearCost

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.calibrate.measure.timing import Workload

SHAPE = DecoderShape(2, 48, 6, 2, 16, 96, 211)


@pytest.fixture
def lab() -> DecoderLab:
    decoder = Decoder(
        SHAPE,
        num_blocks=blocks_needed((64,), 16),
        block_size=16,
        device=torch.device("cpu"),
        dtype=torch.float32,
    )
    return DecoderLab(decoder)


def test_all_calls_of_a_lab_run(lab: DecoderLab) -> None:
    assert lab.cached(1, 33)().shape == (1, 211)  # type: ignore[attr-defined]
    assert lab.cached(16, 64)().shape == (16, 211)  # type: ignore[attr-defined]
    assert lab.naive(40)().shape == (211,)  # type: ignore[attr-defined]


def test_the_naive_side_ends_at_the_limit(lab: DecoderLab) -> None:
    rows = cache_table(lab, HostTimer(), (16, 32, 64), limit_s=1e-9)
    assert [row.naive_us is None for row in rows] == [False, True, True]
    assert all(row.cached_us > 0 for row in rows)
    steps = step_table(lab, HostTimer(), (16, 64))
    assert [(row.batch, row.context) for row in steps] == [(1, 16), (1, 64), (16, 16), (16, 64)]


def test_a_lab_lasts_as_long_as_was_expected() -> None:
    """1 s and 10 ms a token without a cache, 0.1 s with one: 3 repeats and a warm-up, or 7."""

    class Clock:
        name = "made up"
        now = 0.0

        def now_s(self) -> float:
            return self.now

        def runners(self, workload: Workload) -> list[Callable[[], float]]:
            def run() -> float:
                before_s = self.now
                workload.calls[0]()
                return (self.now - before_s) * 1e6

            run()
            return [run]

    class Lab:
        def cached(self, batch: int, context: int) -> Callable[[], object]:
            return lambda: self.last(0.1)

        def naive(self, context: int) -> Callable[[], object]:
            return lambda: self.last(1 + 0.01 * context)

        def last(self, call_s: float) -> None:
            clock.now += call_s

    clock, lab = Clock(), cast("DecoderLab", Lab())
    expected = expected_s(lab, clock, (128, 256, 512, 1024), limit_s=8)
    assert expected == pytest.approx(4 * (2.28 + 3.56 + 6.12) + 3 * 4 * 8 * 0.1)
    clock.now = 0.0
    cache_table(lab, clock, (128, 256, 512), limit_s=20)
    step_table(lab, clock, (128, 256, 512))
    assert clock.now == pytest.approx(4 * (2.28 + 3.56 + 6.12) + 3 * 3 * 8 * 0.1)


def test_growth_by_bytes_is_weights_and_kv() -> None:
    """Weights 2 x 21,504 + 211 x 48 = 53,136 values; KV 128 values a token (two layers)."""
    assert SHAPE.layer_weights == 48 * (160 + 96) + 3 * 48 * 96
    weights = 2 * SHAPE.layer_weights + 211 * 48
    want = (weights + 16 * 64 * 128) / (weights + 16 * 16 * 128)
    assert growth_by_bytes(SHAPE, 4, 16, 64, 16) == pytest.approx(want)
    assert growth_by_bytes(SHAPE, 4, 1, 16, 16) == 1


def test_the_tables_and_the_page() -> None:
    cache = [CacheRow(128, 2000.0, 9000.0), CacheRow(256, 2500.0, None)]
    steps = [StepRow(1, 128, 2000.0), StepRow(1, 256, 2500.0)]
    lines = lab_lines(cache, steps, SHAPE, 4)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 80
    assert "4.5" in text
    assert "over the limit" in text
    assert "1.25" in text
    page = "".join(lab_page("lab <1>", cache, steps, conversation(LinearCost(base_ps=10**9))))
    assert "with cache" in page
    assert "<dd>lab &lt;1&gt;</dd>" in page
    assert page.count('class="plot"') == 3
