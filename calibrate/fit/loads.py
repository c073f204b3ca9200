"""Which loads each term of the step cost is affine in: matrices for the fit.

``max(g0 + g1*N, g2 + g3*N)``, ``a0 + a1*B + a2*T`` and so on, as in
:mod:`kvsim.sim.cost.profile_cost`; a row a point, a column a coefficient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsim.calibrate.sources.points import Points

    Pieces = list[NDArray[np.float64]]


def token_pieces(points: Points, load: str = "tokens") -> Pieces:
    """Two pieces, each affine in one load."""
    matrix = _columns(np.ones(len(points)), points[load])
    return [matrix, matrix]


def tile_pieces(points: Points, tile_tokens: int) -> Pieces:
    """The same two pieces; the second also pays for each started tile of tokens."""
    tokens = points["tokens"]
    plain = _columns(np.ones(len(points)), tokens)
    return [plain, np.column_stack([plain, np.ceil(tokens / tile_tokens)])]


def batch_pieces(points: Points, load: str = "batch") -> Pieces:
    """One piece, affine in one load."""
    return [_columns(np.ones(len(points)), points[load])]


def decode_pieces(points: Points) -> Pieces:
    """One piece: per call, per request, per token of context."""
    batch = points["batch"]
    return [_columns(np.ones(len(points)), batch, batch * points["context"])]


def prefill_pieces(points: Points) -> Pieces:
    """Reach (past + chunk), then chunk and area; summed over the equal requests of a call."""
    requests, chunk, past = points["requests"], points["chunk"], points["past"]
    one = np.ones(len(points))
    area = requests * (chunk * past + chunk * chunk / 2)
    return [_columns(one, requests * (past + chunk)), _columns(one, requests * chunk, area)]


def prefill_pieces_by_request(points: Points) -> Pieces:
    """The same two pieces; the first also pays for each request, and each token of its past."""
    requests = points["requests"]
    reach, area = prefill_pieces(points)
    return [np.column_stack([reach, requests, requests * points["past"]]), area]


def mixed_pieces(points: Points) -> Pieces:
    """What decodes add to a call that also prefills: per request, per token of context."""
    decodes = points["num_decodes"]
    return [_columns(decodes, decodes * points["context"])]


def expert_pieces(points: Points) -> Pieces:
    """Reading the touched experts, then arithmetic."""
    one, tokens = np.ones(len(points)), points["tokens"]
    return [_columns(one, points["activated"], tokens), _columns(one, tokens)]


def _columns(*columns: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack(columns, axis=1)
