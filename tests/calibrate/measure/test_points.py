"""The grid is that of the step-cost model, cut to limits, with hold-outs inside its hull."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.calibrate.measure.points import (
    FIT,
    HOLD_OUT,
    HOLD_OUTS_PER_BLOCK,
    LOADS,
    Limits,
    copies,
    flex,
    grid,
    hold_outs,
    layouts,
)
from kvsim.calibrate.measure.raw_points import point_of
from kvsim.sim.cost import measured_points

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def test_the_grid_has_the_points_of_the_step_cost_model() -> None:
    counts = Counter(point.block for point in grid(Limits()))
    model = {"layer": 11, "decode": 9, "prefill": 11, "mixed": 4, "head": 7}
    assert {block: counts[block] for block in model} == model
    assert set(counts) == {*model, "small", "host"}


def test_every_block_has_its_loads_and_profiles_are_read_by_the_same_roles() -> None:
    limits = Limits()
    points = [*grid(limits), *layouts(limits), flex(limits), *copies(host_link=True)]
    points += hold_outs(limits, 0)
    assert {point.block for point in points} == set(LOADS)
    assert all(set(point.loads) == set(LOADS[point.block]) for point in points)
    assert measured_points.ROLES == (FIT, HOLD_OUT)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("block", "decodes", "block is 'decodes', not one of layer, small, decode"),
        ("loads", {"batch": 1}, "loads of decode are batch, not batch, context"),
        ("loads", {}, "loads of decode are none, not batch, context"),
    ],
)
def test_a_point_that_no_calibration_writes_is_told(key: str, value: object, message: str) -> None:
    row = {"block": "decode", "role": FIT, "loads": {"batch": 1, "context": 2}, "times_us": [2.5],
           "rotated_bytes": 1, "discarded": 0, "anchor_us": 100.0}  # fmt: skip
    assert point_of(row)[0].key == "decode fit batch=1 context=2"
    with pytest.raises(ValueError, match=f"a raw point is damaged: {message}.*; calibrate again"):
        point_of({**row, key: value})


def test_the_engine_s_largest_step_is_measured() -> None:
    points = grid(Limits(max_step_tokens=8192))
    assert 8192 in {point.loads["tokens"] for point in points if point.block == "layer"}
    assert (8192, 0) in {
        (point.loads["chunk"], point.loads["past"]) for point in points if point.block == "prefill"
    }


@given(
    st.integers(2, 300),
    st.integers(512, 40_000),
    st.integers(128, 9000),
    st.integers(4096, 300_000),
)
def test_no_point_is_beyond_a_limit(batch: int, context: int, tokens: int, total: int) -> None:
    limits = Limits(batch, context, tokens, total)
    points = [*grid(limits), *layouts(limits), *hold_outs(limits, 1)]
    assert len({point.key for point in points}) == len(points)
    for point in points:
        loads = point.loads
        assert min(value for name, value in loads.items() if name not in ("past", "block_size")) > 0
        assert loads.get("past", 0) >= 0
        assert loads.get("batch", 1) <= batch
        assert loads.get("decodes", 1) <= batch
        assert loads.get("tokens", 1) <= tokens
        assert loads.get("chunk", 1) <= tokens
        assert loads.get("chunk", 1) + loads.get("past", 0) <= max(context, loads.get("chunk", 1))
        if point.block in ("decode", "layout", "mixed"):
            rows = loads.get("batch", loads.get("decodes", 1))
            assert rows * loads["context"] <= max(total, rows)


def test_hold_outs_depend_on_the_seed_alone() -> None:
    one, two, other = (hold_outs(Limits(), seed) for seed in (1, 1, 2))
    assert one == two != other
    counts = Counter(point.block for point in one)
    assert set(counts) == {"layer", "decode", "prefill", "mixed", "head"}
    assert max(counts.values()) == HOLD_OUTS_PER_BLOCK
    fitted = {point.key for point in grid(Limits())}
    assert fitted.isdisjoint(point.key for point in one)


def test_a_device_without_memory_of_its_own_has_no_host_link() -> None:
    assert {point.block for point in copies(host_link=False)} == {"copy"}
    assert {point.block for point in copies(host_link=True)} == {"copy", "to_host", "from_host"}


def test_a_limit_below_two_is_refused() -> None:
    with pytest.raises(ValueError, match="max_batch is 1; it must be at least 2"):
        Limits(max_batch=1)


@pytest.mark.parametrize(
    "limits", [Limits(2, 512, 128, 4096), Limits(256, 512, 128, 4096), Limits(2, 512, 8192, 262144)]
)
def test_the_smallest_limits_still_tell_terms_apart(limits: Limits) -> None:
    """The columns of each term are independent at the grid's points."""
    columns: dict[str, Callable[[Mapping[str, int]], tuple[float, ...]]] = {
        "decode": lambda n: (1, n["batch"], n["batch"] * n["context"]),
        "mixed": lambda n: (n["decodes"], n["decodes"] * n["context"]),
        "prefill": lambda n: (1, n["chunk"], n["chunk"] * n["past"] + n["chunk"] ** 2 / 2),
        "layer": lambda n: (1, n["tokens"]),
        "head": lambda n: (1, n["batch"]),
    }
    for block, column in columns.items():
        rows = [column(point.loads) for point in grid(limits) if point.block == block]
        matrix = np.array(rows, dtype=np.float64)
        scaled = matrix / np.abs(matrix).max(axis=0)
        assert np.linalg.matrix_rank(scaled, tol=1e-6) == matrix.shape[1], block


def test_low_limits_leave_more_prefills_than_coefficients() -> None:
    """Five coefficients through five points would hold the noise of each."""
    for limits in (Limits(2, 512, 128, 4096), Limits(16, 2048, 512, 262144)):
        assert sum(point.block == "prefill" for point in grid(limits)) > 5
