"""Laws of answer lengths for files that have none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kvsim.traces import OutputRule, TraceError, read_trace

DATA = Path(__file__).parents[2] / "data"


def test_laws() -> None:
    rng = np.random.default_rng(0)
    assert OutputRule.parse("256").draw(3, rng).tolist() == [256] * 3
    uniform = OutputRule.parse("uniform(2, 5)").draw(10_000, rng)
    assert set(uniform.tolist()) == {2, 3, 4, 5}
    lengths = OutputRule.parse("lognormal(mean=200,sigma=0.9)").draw(200_000, rng)
    assert lengths.min() >= 1
    assert lengths.mean() == pytest.approx(200, rel=0.02)
    assert np.log(lengths[lengths > 20]).std() < 0.9


@pytest.mark.parametrize("text", ["256", "uniform(2,5)", "lognormal(mean=200,sigma=0.5)"])
def test_writing_and_reading_a_law(text: str) -> None:
    assert str(OutputRule.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["", "0", "-3", "1.5", "99999999999", "uniform(5,2)", "uniform(0,3)",
     "lognormal(mean=0,sigma=1)",
     "lognormal(200,1)", "lognormal(mean=9,sigma=99)", "normal(1,2)"],
)  # fmt: skip
def test_other_laws_are_one_sentence(text: str) -> None:
    with pytest.raises(TraceError, match="--output-tokens is"):
        OutputRule.parse(text)


def test_a_file_with_answers_refuses_others() -> None:
    with pytest.raises(TraceError, match="the file has output lengths"):
        read_trace(DATA / "vidur.csv", output_tokens="9")


def test_drawn_answers_are_seeded_and_noted() -> None:
    one, same = (
        read_trace(DATA / "tair_tokens.jsonl", output_tokens="uniform(1,999)", seed=3)
        for _ in range(2)
    )
    assert one.output_tokens.tolist() == same.output_tokens.tolist()
    assert one.receipt is not None
    assert "output lengths drawn by --output-tokens uniform(1,999)" in " ".join(one.receipt.notes)
