"""Quality of predictions: ranks against scipy, shares by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from kvsim.sim.metrics.prediction import prediction_quality, rank_correlation
from kvsim.sim.recording.recorder import Recorder


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=30))
def test_rank_correlation_is_spearmans(pairs: list[tuple[int, int]]) -> None:
    a, b = (np.array(column) for column in zip(*pairs, strict=True))
    ours = rank_correlation(a, b)
    if len(set(a.tolist())) == 1 or len(set(b.tolist())) == 1:
        assert ours is None
    else:
        assert ours == pytest.approx(spearmanr(a, b).statistic, abs=1e-12)


def test_over_and_under_prediction() -> None:
    recorder = Recorder(5)
    for index, (guess, truth) in enumerate([(10, 4), (20, 8), (5, 9), (7, 7)]):
        recorder.predicted(index, guess)
        recorder.finished(index, 1, truth)
    recorder.predicted(4, 1000)  # never finished: there is nothing to compare with
    assert prediction_quality(recorder, "noisy") == {
        "predictor": "noisy",
        "num": 4,
        "rank_correlation": pytest.approx(-0.4),  # ranks 3 4 1 2 against 1 3 4 2
        "over_percent": 50.0,
        "over_mean_tokens": 9.0,
        "under_percent": 25.0,
        "under_mean_tokens": 4.0,
    }


def test_nobody_predicted() -> None:
    recorder = Recorder(1)
    recorder.finished(0, 1, 4)
    assert prediction_quality(recorder, "none") is None
