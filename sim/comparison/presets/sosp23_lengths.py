"""Lengths of the PagedAttention paper's ShareGPT experiment, reconstructed (arXiv 2309.06180).

The paper's lengths are not public. These are two independent log-normals with its means, 161 and
338 tokens, after prompts are cut at 1,024 and requests at 2,048; the spreads, 1.4 and 0.8, were
fitted to its Figure 2: a *fitted reconstruction*.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from kvsim.traces.trace.trace import Trace

if TYPE_CHECKING:
    from numpy.typing import NDArray

MODEL_LEN: Final = 2048
MEAN_PROMPT: Final = 161
MEAN_OUTPUT: Final = 338
_LONGEST_PROMPT: Final = 1024
_PROMPT_SIGMA: Final = 1.4
_OUTPUT_SIGMA: Final = 0.8


def saturated(num_requests: int, seed: int) -> Trace:
    """All requests at once: the queue is empty only at the very end."""
    rng = np.random.default_rng(seed)
    prompt_mu, output_mu = _centres()
    prompts = _prompts(prompt_mu, rng.standard_normal(num_requests))
    outputs = _outputs(output_mu, rng.standard_normal(num_requests), prompts)
    return Trace(
        f"seed {seed}",
        np.zeros(num_requests, np.int64),
        prompts.astype(np.int64),
        outputs.astype(np.int64),
    )


@cache
def _centres() -> tuple[float, float]:
    """Log-medians that give the means after truncation, by quadrature."""
    from scipy.optimize import brentq  # noqa: PLC0415 - slow to import
    from scipy.special import ndtri  # noqa: PLC0415

    fine, coarse = (ndtri((np.arange(num) + 0.5) / num) for num in (20_000, 500))
    prompt_mu = brentq(lambda mu: _prompts(mu, fine).mean() - MEAN_PROMPT, 0, 8)
    prompts = _prompts(prompt_mu, coarse)[:, None]
    output_mu = brentq(lambda mu: _outputs(mu, coarse[None, :], prompts).mean() - MEAN_OUTPUT, 0, 8)
    return float(prompt_mu), float(output_mu)


def _prompts(mu: float, normal: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(np.rint(np.exp(mu + _PROMPT_SIGMA * normal)), 1, _LONGEST_PROMPT)


def _outputs(
    mu: float, normal: NDArray[np.float64], prompts: NDArray[np.float64]
) -> NDArray[np.float64]:
    return np.clip(np.rint(np.exp(mu + _OUTPUT_SIGMA * normal)), 1, MODEL_LEN - prompts)
