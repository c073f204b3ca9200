"""The projections of one decoder layer: ``y = x W^T`` with weights stored as ``[out, in]``.

Shapes, with N tokens: hidden ``[N, hidden_size]``, qkv ``[N, qkv_size]``, attention output
``[N, num_heads * head_dim]``. Source of the form: Llama (Touvron et al. 2023), section 2.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from kvsim.kernels.shape import DecoderShape

_LEAST_CPU_ROWS: Final = 4


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """Weights of one layer, ``[out, in]`` each; ``gate_up`` holds the gate's rows first."""

    qkv: torch.Tensor
    output: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


def random_weight(
    rows: int, columns: int, *, device: torch.device, dtype: torch.dtype, rng: torch.Generator
) -> torch.Tensor:
    """Normal weights of variance ``1 / columns``, so that outputs keep the inputs' size."""
    values: torch.Tensor = torch.randn(rows, columns, generator=rng, device=rng.device)
    return values.div(columns**0.5).to(device=device, dtype=dtype)


def random_layer(
    shape: DecoderShape, *, device: torch.device, dtype: torch.dtype, rng: torch.Generator
) -> LayerWeights:
    """Layer of random weights; of a mixture, one expert."""

    def weight(rows: int, columns: int) -> torch.Tensor:
        return random_weight(rows, columns, device=device, dtype=dtype, rng=rng)

    return LayerWeights(
        qkv=weight(shape.qkv_size, shape.hidden_size),
        output=weight(shape.hidden_size, shape.num_heads * shape.head_dim),
        gate_up=weight(2 * shape.intermediate_size, shape.hidden_size),
        down=weight(shape.hidden_size, shape.intermediate_size),
    )


def project(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """``x W^T``: one GEMM; ``[N, in]`` and ``[out, in]`` to ``[N, out]``.

    torch 2.13 multiplies two or three rows one by one on a CPU, in up to twice the time of four
    (measured): they are padded to four.
    """
    missing = _LEAST_CPU_ROWS - len(x)
    if x.device.type == "cpu" and 0 < missing < _LEAST_CPU_ROWS - 1:
        return functional.linear(functional.pad(x, (0, 0, 0, missing)), weight)[: len(x)]
    return functional.linear(x, weight)


def gated(gate_up: torch.Tensor) -> torch.Tensor:
    """``silu(gate) * up``: ``[N, 2 * intermediate]`` to ``[N, intermediate]``."""
    gate, up = gate_up.chunk(2, dim=-1)
    return functional.silu(gate) * up


def mlp(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """Gated MLP: ``[N, hidden]`` to ``[N, hidden]``."""
    return project(gated(project(x, gate_up)), down)


def layer_gemms(x: torch.Tensor, weights: LayerWeights, attention: torch.Tensor) -> torch.Tensor:
    """All GEMMs of a layer in the order of a step, without attention between: what G(N) times.

    ``attention`` stands for the attention's output, ``[N, num_heads * head_dim]``.
    """
    project(x, weights.qkv)
    return mlp(project(attention, weights.output), weights.gate_up, weights.down)


def project_reference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The same in float64, as a sum of products."""
    return torch.einsum("ni,oi->no", x.double(), weight.double())
