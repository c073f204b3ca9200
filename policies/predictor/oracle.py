"""Predictors that read the true lengths: the exact length, or with a chosen error.

Each declares ``uses_oracle``, so that a run's notes say so. Errors are drawn once for each request,
only from the run's seed and the request's id. So all compared policies see the same errors.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from hashlib import blake2b
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

from kvsim.policies.predictor.base import conditioned, sampled_tokens

if TYPE_CHECKING:
    from kvsim.policies.context import PolicyContext
    from kvsim.policies.sequence import Sequence

_STANDARD_NORMAL: Final = NormalDist()


class Oracle:
    """The true length."""

    name = "oracle"
    uses_oracle = True
    predicts = True

    def __init__(self, context: PolicyContext) -> None:
        assert context.truth is not None, "an oracle needs the true lengths"
        self._truth = context.truth
        self._config = context.config
        self._seed = context.seed
        self._guesses: dict[int, int] = {}

    def output_tokens(self, sequence: Sequence) -> int:
        """Return the request's prediction, made once, limited to what is still possible."""
        guess = self._guesses.get(sequence.index)
        if guess is None:
            guess = self._guess(sequence, self._truth.num_outputs(sequence.index))
            self._guesses[sequence.index] = guess
        return conditioned(guess, sequence, self._config.max_model_len)

    def finished(self, sequence: Sequence) -> None:
        """Forget the request."""
        self._guesses.pop(sequence.index, None)

    def _guess(self, sequence: Sequence, num_outputs: int) -> int:
        return num_outputs


class Noisy(Oracle):
    """The true length times a log-normal factor of median 1: ``exp(error * z)``.

    ``predictor.error`` is the standard deviation of the factor's logarithm: at 0.5 two thirds of
    the guesses lie between 0.61 and 1.65 times the truth.
    """

    name = "noisy"

    def _guess(self, sequence: Sequence, num_outputs: int) -> int:
        z = _STANDARD_NORMAL.inv_cdf(uniform(self._seed, sequence.name))
        return max(1, round(num_outputs * math.exp(self._config.predictor.error * z)))


class Bucketed(Oracle):
    """The upper bound of the true length's bucket: a classifier of lengths.

    S3 (Jin et al., NeurIPS 2023) and others reserve memory by a predicted class in this way.
    ``predictor.bucket_bounds`` are inclusive upper bounds. Beyond the last bound the output may be
    as long as is allowed. A share ``predictor.bucket_error_rate`` of the requests is put one bucket
    too low or too high, with equal probability. An output that outgrows its bucket moves to the
    next one.
    """

    name = "bucketed"

    def output_tokens(self, sequence: Sequence) -> int:
        """Return the upper bound of the bucket, or of the first one above the sampled tokens."""
        guess = super().output_tokens(sequence)
        if guess > sampled_tokens(sequence) + 1:
            return guess
        bucket = bisect_left(self._config.predictor.bucket_bounds, guess)
        return conditioned(self._bound(bucket, sequence), sequence, self._config.max_model_len)

    def _guess(self, sequence: Sequence, num_outputs: int) -> int:
        table = self._config.predictor
        bounds, rate = table.bucket_bounds, table.bucket_error_rate
        bucket = bisect_left(bounds, num_outputs)
        draw = uniform(self._seed, sequence.name)
        if draw < rate:
            bucket += 1 if draw < rate / 2 else -1
        return self._bound(min(max(bucket, 0), len(bounds)), sequence)

    def _bound(self, bucket: int, sequence: Sequence) -> int:
        bounds = self._config.predictor.bucket_bounds
        return bounds[bucket] if bucket < len(bounds) else sequence.max_tokens


def uniform(seed: int, name: str) -> float:
    """Return a number in (0, 1) from seed and request id, the same on every machine."""
    digest = blake2b(f"{seed}:{name}".encode(errors="surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest) // 2**12 + 0.5) / 2**52
