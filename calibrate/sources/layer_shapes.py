"""Matrix products of one layer, and times of shapes that a table of products lacks.

A product of ``m`` tokens has a weight of n x k values. Both the bytes of the weight and the
operations are linear in n and in k, so a shape between measured ones is interpolated linearly:
along n where its k was measured, along k where its n was, the mean of the two where both are, and
bilinear where neither is. Beyond the largest n or k it grows in proportion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kvsim.sim.models import ModelSpec


class Shape(NamedTuple):
    """Weight of one product: n outputs, k inputs."""

    n: int
    k: int


def layer_shapes(model: ModelSpec, tp: int) -> tuple[Shape, ...]:
    """Shapes of q/k/v, output, gate-up and down products on one of ``tp`` ranks.

    Raises ``ValueError`` for a model whose layers are made of others.
    """
    group = model.groups[0]
    query, kv = model.num_heads * model.head_dim, group.kv_heads_per_rank(tp) * model.head_dim
    width, hidden = model.intermediate_size, model.hidden_size
    shapes = (
        Shape(query // tp + 2 * kv, hidden),
        Shape(hidden, query // tp),
        Shape(2 * width // tp, hidden),
        Shape(hidden, width // tp),
    )
    whole = hidden * (2 * query + 2 * model.num_kv_heads * model.head_dim + 3 * width)
    per_layer = model.params.layer_linear / model.num_layers
    if model.experts is not None or abs(per_layer / whole - 1) > 0.01:
        raise ValueError(
            f"{model.name}: its layers are not the q/k/v, output, gate-up and down products of a"
            " gated dense decoder, so a table of products cannot be summed; give a dense Llama-like"
            " model, or a table of whole layers (vidur, llmservingsim)"
        )
    return shapes


@dataclass(frozen=True, slots=True)
class ShapeTable:
    """Times in us by shape, each over the same token counts."""

    tokens: NDArray[np.float64]
    us: dict[Shape, NDArray[np.float64]]

    def at(self, shape: Shape) -> NDArray[np.float64]:
        """Measured where it was, else interpolated. Raises ``ValueError`` on an empty table."""
        return self.us[shape] if shape in self.us else self.between(shape)

    def left_out(self, shape: Shape) -> NDArray[np.float64]:
        """Times of a measured shape as if the table lacked it."""
        rest = {other: us for other, us in self.us.items() if other != shape}
        return ShapeTable(self.tokens, rest).between(shape)

    def between(self, shape: Shape) -> NDArray[np.float64]:
        """Interpolated times in us (see the module)."""
        along_n = {other.n: us for other, us in self.us.items() if other.k == shape.k}
        along_k = {other.k: us for other, us in self.us.items() if other.n == shape.n}
        estimates = [
            _linear(known, size)
            for known, size in ((along_n, shape.n), (along_k, shape.k))
            if len(known) >= 2 and size <= max(known)
        ]
        if estimates:
            return np.asarray(np.mean(estimates, axis=0))
        if len(along_n) >= 2:
            return _linear(along_n, shape.n)
        if len(along_k) >= 2:
            return _linear(along_k, shape.k)
        rows = {
            k: _linear(row, shape.n)
            for k in sorted({other.k for other in self.us})
            if len(row := {other.n: us for other, us in self.us.items() if other.k == k}) >= 2
        }
        if len(rows) < 2:
            raise ValueError(f"the table has too few weight shapes to say what {shape} costs")
        return _linear(rows, shape.k)


def _linear(known: dict[int, NDArray[np.float64]], size: int) -> NDArray[np.float64]:
    sizes: Sequence[int] = sorted(known)
    if size > sizes[-1]:
        return known[sizes[-1]] * (size / sizes[-1])
    right = min(max(int(np.searchsorted(sizes, size)), 1), len(sizes) - 1)
    low, high = sizes[right - 1], sizes[right]
    share = max((size - low) / (high - low), 0.0)
    return known[low] + (known[high] - known[low]) * share
