"""One behaviour suite for every length predictor, and what each of them is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsim.policies.context import PolicyContext
from kvsim.policies.predictor import PREDICTORS
from kvsim.policies.predictor.oracle import uniform
from kvsim.policies.predictor.quantile import MIN_ANSWERS
from kvsim.policies.registry import build
from kvsim.policies.sequence import Sequence
from tests.engine_config import engine_config

if TYPE_CHECKING:
    from kvsim.policies.predictor.base import LengthPredictor

KINDS = sorted(PREDICTORS.builtins.keys() - {"none"})
MODEL_LEN = 1000


class Truth:
    """Request ``i`` answers with ``lengths[i]`` tokens."""

    def __init__(self, lengths: list[int]) -> None:
        self._lengths = lengths

    def num_outputs(self, index: int) -> int:
        return self._lengths[index]

    def num_slots(self, index: int) -> int:
        raise NotImplementedError(index)


def make_predictor(
    kind: str, lengths: list[int], *, seed: int = 0, **rules: object
) -> LengthPredictor:
    config = engine_config(predictor__kind=kind, max_model_len=MODEL_LEN, **rules)
    context = PolicyContext(config, seed=seed, truth=Truth(lengths))
    return build(PREDICTORS.find(kind), context)


def make_sequence(index: int, prompt: int = 10, sampled: int = 0, limit: int = 600) -> Sequence:
    sequence = Sequence(index, f"r{index:04d}", 0, prompt, limit, 0, ())
    sequence.num_tokens += sampled
    return sequence


def finish(predictor: LengthPredictor, lengths: list[int], prompt: int = 10) -> None:
    for index, length in enumerate(lengths):
        predictor.finished(make_sequence(1000 + index, prompt, sampled=length))


@pytest.mark.parametrize("kind", KINDS)
class TestEveryPredictor:
    def test_is_found_under_its_name_and_predicts(self, kind: str) -> None:
        predictor = make_predictor(kind, [])
        assert predictor.name == kind
        assert predictor.predicts

    @given(
        length=st.integers(1, 700),
        sampled=st.integers(0, 599),
        limit=st.integers(1, 600),
        learnt=st.lists(st.integers(1, 900), max_size=20),
    )
    def test_an_unfinished_answer_has_one_token_more_and_none_beyond_the_limit(
        self, kind: str, length: int, sampled: int, limit: int, learnt: list[int]
    ) -> None:
        sampled = min(sampled, limit - 1)
        predictor = make_predictor(kind, [length], predictor__error=2.0)
        finish(predictor, learnt)
        guess = predictor.output_tokens(make_sequence(0, sampled=sampled, limit=limit))
        assert sampled + 1 <= guess <= limit

    def test_no_guess_outgrows_the_model(self, kind: str) -> None:
        predictor = make_predictor(kind, [900], predictor__prior=5000)
        assert predictor.output_tokens(make_sequence(0, prompt=950, limit=5000)) == 50

    def test_the_same_run_hears_the_same_guesses_in_any_order(self, kind: str) -> None:
        lengths = [5, 80, 300, 17]
        ours, theirs = make_predictor(kind, lengths), make_predictor(kind, lengths)
        forwards = [ours.output_tokens(make_sequence(index)) for index in range(4)]
        backwards = [theirs.output_tokens(make_sequence(index)) for index in range(3, -1, -1)]
        assert forwards == backwards[::-1]
        assert forwards == [ours.output_tokens(make_sequence(index)) for index in range(4)]

    def test_the_truth_is_asked_by_who_declares_it(self, kind: str) -> None:
        outcomes = {
            make_predictor(kind, [length], predictor__bucket_bounds=(8,)).output_tokens(
                make_sequence(0)
            )
            for length in (3, 500)
        }
        assert (len(outcomes) == 2) == make_predictor(kind, []).uses_oracle


def test_none_refuses_to_guess() -> None:
    predictor = make_predictor("none", [])
    assert not predictor.predicts
    with pytest.raises(ValueError, match="'none' predicts nothing"):
        predictor.output_tokens(make_sequence(0))


def test_max_tokens_is_what_is_allowed() -> None:
    assert make_predictor("max_tokens", []).output_tokens(make_sequence(0, limit=77)) == 77


def test_oracle_is_right_all_along() -> None:
    predictor = make_predictor("oracle", [40])
    assert [predictor.output_tokens(make_sequence(0, sampled=n)) for n in (0, 1, 39)] == [40] * 3


def test_noise_is_log_normal_with_median_one() -> None:
    """Known answer: the logarithm of the factor has mean 0 and deviation ``error``."""
    num = 4000
    predictor = make_predictor("noisy", [10_000] * num, predictor__error=0.4)
    predictor._config = engine_config(predictor__error=0.4, max_model_len=10**9)  # type: ignore[attr-defined]
    guesses = [predictor.output_tokens(make_sequence(index, limit=10**8)) for index in range(num)]
    logs = np.log(np.array(guesses) / 10_000)
    assert abs(logs.mean()) < 4 * 0.4 / math.sqrt(num)
    assert abs(logs.std() - 0.4) < 4 * 0.4 / math.sqrt(2 * num)


def test_noise_depends_on_seed_and_request_alone() -> None:
    lengths = [200] * 50
    first, same, other = (make_predictor("noisy", lengths, seed=seed) for seed in (1, 1, 2))
    finish(same, [5] * 30)
    guesses = [
        [predictor.output_tokens(make_sequence(index)) for index in range(50)]
        for predictor in (first, same, other)
    ]
    assert guesses[0] == guesses[1]
    assert guesses[0] != guesses[2]
    assert len(set(guesses[0])) > 20


def test_no_error_is_the_truth() -> None:
    assert (
        make_predictor("noisy", [123], predictor__error=0.0).output_tokens(make_sequence(0)) == 123
    )


def test_uniform_is_the_same_everywhere() -> None:
    assert uniform(0, "r0000") == 0.25118079609923216
    assert 0 < uniform(3, "\udcff") < 1


@pytest.mark.parametrize(
    ("length", "guess"), [(1, 16), (16, 16), (17, 64), (64, 64), (65, 600), (590, 600)]
)
def test_bucketed_says_the_upper_bound(length: int, guess: int) -> None:
    predictor = make_predictor("bucketed", [length], predictor__bucket_bounds=(16, 64))
    assert predictor.output_tokens(make_sequence(0)) == guess


def test_an_answer_that_outgrows_its_bucket_moves_to_the_next() -> None:
    rules = {"predictor__bucket_bounds": (16, 64), "predictor__bucket_error_rate": 0.999}
    predictors = (make_predictor("bucketed", [40], seed=seed, **rules) for seed in range(50))
    low = next(p for p in predictors if p.output_tokens(make_sequence(0)) == 16)
    sampled = (15, 16, 63, 64)
    guesses = [low.output_tokens(make_sequence(0, sampled=number)) for number in sampled]
    assert guesses == [16, 64, 64, 600]


def test_a_share_of_the_buckets_is_wrong_by_one() -> None:
    num = 2000
    predictor = make_predictor(
        "bucketed", [40] * num, predictor__bucket_bounds=(16, 64), predictor__bucket_error_rate=0.3
    )
    guesses = [predictor.output_tokens(make_sequence(index)) for index in range(num)]
    deviation = math.sqrt(num * 0.15 * 0.85)
    assert abs(guesses.count(16) - 0.15 * num) < 4 * deviation
    assert abs(guesses.count(600) - 0.15 * num) < 4 * deviation
    assert guesses.count(64) == num - guesses.count(16) - guesses.count(600)


def test_quantile_starts_with_its_prior() -> None:
    predictor = make_predictor("quantile", [], predictor__prior=100)
    finish(predictor, [7] * (MIN_ANSWERS - 1))
    assert predictor.output_tokens(make_sequence(0)) == 100
    finish(predictor, [7])
    assert predictor.output_tokens(make_sequence(0)) == 7


def test_quantile_learns_by_class_of_prompt() -> None:
    predictor = make_predictor("quantile", [])
    finish(predictor, [50] * MIN_ANSWERS, prompt=100)
    assert predictor.output_tokens(make_sequence(0, prompt=300)) == 50  # all classes together
    finish(predictor, [9] * MIN_ANSWERS, prompt=256)
    assert predictor.output_tokens(make_sequence(0, prompt=511)) == 9
    assert predictor.output_tokens(make_sequence(0, prompt=127)) == 50


@given(
    lengths=st.lists(st.integers(1, 60), min_size=MIN_ANSWERS, max_size=40),
    sampled=st.integers(0, 70),
    quantile=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
)
def test_quantile_of_the_longer_ones(lengths: list[int], sampled: int, quantile: float) -> None:
    """Naive twin: the inverted distribution of what is longer than the answer so far."""
    predictor = make_predictor("quantile", [], predictor__quantile=quantile)
    finish(predictor, lengths)
    guess = predictor.output_tokens(make_sequence(0, sampled=sampled))
    peers = np.array([length for length in lengths if length > sampled])
    if len(peers):
        assert guess == np.quantile(peers, quantile, method="inverted_cdf")
    else:
        assert guess == max(2 * sampled, sampled + 1)
