"""What policies are told about the lengths of answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvsim.policies.predictor.no_prediction import NoPrediction
from kvsim.policies.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from kvsim.policies.context import PolicyContext
    from kvsim.policies.predictor.base import LengthPredictor

PREDICTORS: Final[Registry[Callable[[PolicyContext], LengthPredictor]]] = Registry(
    "predictor", {NoPrediction.name: lambda _context: NoPrediction()}
)

__all__ = ["PREDICTORS", "NoPrediction"]
