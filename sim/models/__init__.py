"""Model shapes and the bytes that they need.

The main function is :func:`~kvsim.sim.models.load.load_model`. Each family of configs has one file.
Bundled examples are in ``configs``.
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
