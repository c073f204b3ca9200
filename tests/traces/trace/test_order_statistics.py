"""Order statistics in small memory, against sorting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces.trace import order_statistics
from kvsim.traces.trace.order_statistics import blocks, kth_smallest, percentile
from kvsim.traces.trace.time_grid import gap_blocks, num_distinct

NUMBERS = st.lists(st.integers(0, 2**20) | st.integers(0, 2**62), min_size=1, max_size=60)


@given(NUMBERS, st.data())
def test_the_kth_smallest_is_that_of_the_sorted_list(
    numbers: list[int], data: st.DataObject
) -> None:
    k = data.draw(st.integers(0, len(numbers) - 1))
    cut = data.draw(st.integers(0, len(numbers)))
    values = np.array(numbers, dtype=np.int64)
    found = kth_smallest(lambda: (values[:cut], values[cut:]), k, max(numbers))
    assert found == sorted(numbers)[k]


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1), st.sampled_from([0, 1, 50, 90, 99, 100]))
def test_percentiles_are_those_of_numpy(numbers: list[int], percent: int) -> None:
    values = np.array(numbers, dtype=np.int64)
    assert percentile(values, percent) == pytest.approx(np.percentile(values, percent), rel=1e-12)


@given(st.lists(st.integers(0, 50), max_size=40))
def test_blocks_hold_every_value_and_every_gap_once(numbers: list[int]) -> None:
    values = np.sort(np.array(numbers, dtype=np.int64))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order_statistics, "BLOCK", 7)
        patch.setattr("kvsim.traces.trace.time_grid.BLOCK", 7)
        whole = [np.zeros(0, np.int64), *blocks(values)]
        gaps = [np.zeros(0, np.int64), *gap_blocks(values)]
        assert np.concatenate(whole).tolist() == values.tolist()
        assert np.concatenate(gaps).tolist() == np.diff(values).tolist()
        assert num_distinct(values) == len(set(numbers))
