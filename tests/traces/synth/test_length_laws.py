"""Laws of lengths: what they draw follows their own distribution function."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.traces import TraceError
from kvsim.traces.synth.length_laws import (
    Fixed,
    LengthLaw,
    LogNormal,
    QuantileTable,
    distance,
    parse_law,
)

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 20_000
UNIFORM = (np.arange(COUNT) + 0.5) / COUNT
tables = st.lists(st.integers(0, 60), min_size=2, max_size=9).filter(lambda t: max(t) > 0)


@pytest.mark.parametrize(
    "law",
    [
        Fixed(7),
        LogNormal(150, 0.9),
        LogNormal(1, 2),
        LogNormal(20, 0),
        QuantileTable((0, 0.5, 0.5, 1), (3, 9, 40, 41)),
    ],
)
def test_evenly_spread_numbers_give_the_law(law: LengthLaw) -> None:
    lengths = law.lengths(UNIFORM)
    assert lengths.min() >= 1
    assert (np.diff(lengths) >= 0).all()
    assert distance(lengths, law) <= 1.01 / COUNT


@given(tables)
def test_tables_with_atoms(tokens: list[int]) -> None:
    probabilities = tuple(step / (len(tokens) - 1) for step in range(len(tokens)))
    law = QuantileTable(probabilities, tuple(sorted(map(float, tokens))))
    assert distance(law.lengths(UNIFORM), law) <= 1.01 / COUNT


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60))
def test_a_fitted_table_meets_the_sample_at_its_quantiles(sample: list[int]) -> None:
    lengths = np.array(sample)
    steps = [step / 10 for step in range(11)]
    law = QuantileTable.fit(lengths, steps)
    for probability, tokens in zip(steps, law.tokens, strict=True):
        assert (lengths <= tokens).mean() >= probability - 1e-9
        assert law.distribution(np.array([int(tokens)]))[0] >= probability - 1e-9
    assert distance(lengths, law) <= 1


def test_the_mean_of_a_log_normal() -> None:
    assert LogNormal(500, 0.8).lengths(UNIFORM).mean() == pytest.approx(500.5, rel=0.01)


def test_another_law_is_far_away() -> None:
    drawn = LogNormal(100, 0.5).lengths(UNIFORM)
    assert distance(drawn, LogNormal(200, 0.5)) > 0.4
    assert distance(np.array([5, 5]), Fixed(6)) == 1
    assert distance(np.array([5]), QuantileTable((0, 1), (0, 10))) == pytest.approx(0.5)


def test_laws_are_read(tmp_path: Path) -> None:
    assert parse_law("12", "--prompt") == Fixed(12)
    assert parse_law(" lognormal(mean=90, sigma=1.5) ", "--prompt") == LogNormal(90, 1.5)
    path = tmp_path / "cdf.json"
    path.write_text(json.dumps([[64, 0.25], [128, 0.25], [256, 1.0], [512, 1.0]]))
    assert parse_law(f"table({path})", "--prompt") == QuantileTable(
        (0, 0.25, 0.25, 1), (0, 64, 128, 256)
    )


@pytest.mark.parametrize("text", ["0", "-3", "1e3", "lognormal(mean=0,sigma=1)", "normal(3)", ""])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(TraceError, match=r"--prompt is .*; choices: a whole number"):
        parse_law(text, "--prompt")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[[1, 0.5]]", "probabilities that rise from 0 to 1"),
        ("[[9, 0.5], [3, 1]]", "lengths that never fall"),
        ("[[9, 0.5], [1e12, 1]]", r"reaches 1e\+12 tokens"),
        ("{}", "probabilities that rise"),
        ("[3]", "no JSON list of pairs"),
        ("nothing", "no JSON list of pairs"),
        ("[" * 100_000, "no JSON list of pairs"),
        (f"[[1{'0' * 400}, 1]]", "no JSON list of pairs"),
    ],
)
def test_broken_tables(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "cdf.json"
    path.write_text(content)
    with pytest.raises(TraceError, match=message):
        parse_law(f"table({path})", "--prompt")
    with pytest.raises(TraceError, match="cannot be read"):
        parse_law(f"table({tmp_path / 'absent'})", "--prompt")


def test_the_distance_is_the_textbook_one() -> None:
    """Two-sided: just before a step, too."""
    law = QuantileTable((0, 1), (0, 100))
    lengths = np.array([90, 95, 100])
    assert distance(lengths, law) == pytest.approx(0.89)
    assert math.isclose(law.distribution(np.array([89]))[0], 0.89)
