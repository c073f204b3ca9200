"""Model shapes and the bytes they need.

The door is :func:`~kvsim.sim.models.load.load_model`; one file a family of configs, whose bundled
examples lie in ``configs``.
"""

from __future__ import annotations

from kvsim.sim.models.load import bundled_models, find_bundled, load_model
from kvsim.sim.models.spec import Experts, LayerGroup, ModelSpec, ParamCount

__all__ = [
    "Experts",
    "LayerGroup",
    "ModelSpec",
    "ParamCount",
    "bundled_models",
    "find_bundled",
    "load_model",
]
