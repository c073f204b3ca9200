"""Predictions of output lengths for policies.

The contract is :mod:`~kvsim.policies.predictor.base`; each predictor has one file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.guards.guard import GuardedFactory
from kvsim.policies.guards.predictor import GuardedPredictor
from kvsim.policies.predictor.max_tokens import MaxTokens
from kvsim.policies.predictor.no_prediction import NoPrediction
from kvsim.policies.predictor.oracle import Bucketed, Noisy, Oracle
from kvsim.policies.predictor.quantile import Quantile
from kvsim.policies.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.context import PolicyContext
    from kvsim.policies.predictor.base import LengthPredictor

PREDICTORS: Final[Registry[Callable[[PolicyContext], LengthPredictor]]] = Registry(
    "predictor",
    {
        NoPrediction.name: lambda _context: NoPrediction(),
        MaxTokens.name: MaxTokens,
        Oracle.name: Oracle,
        Noisy.name: Noisy,
        Bucketed.name: Bucketed,
        Quantile.name: Quantile,
    },
    guard=lambda name, found: GuardedFactory(name, found, GuardedPredictor),
)

__all__ = [
    "PREDICTORS",
    "Bucketed",
    "MaxTokens",
    "NoPrediction",
    "Noisy",
    "Oracle",
    "Quantile",
]
