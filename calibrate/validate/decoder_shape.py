"""From a model to the plain dimensions that the kernels take, or a refusal by name; decoders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import torch

    from kvsim.kernels.decoder import Decoder
    from kvsim.kernels.shape import DecoderShape
    from kvsim.sim.models import ModelSpec

_BIASES: Final = 0.01
"""Share of a layer's parameters that biases and norms of heads may take."""


def decoder_shape(model: ModelSpec, tp: int = 1) -> DecoderShape:
    """Dimensions of ``model`` on one of ``tp`` ranks.

    Raises ``ValueError`` for a model whose layers are not those of a dense decoder with full
    attention and a gated MLP: its terms are derived from such a one's
    (:mod:`kvsim.sim.cost.scale`).
    """
    from kvsim.kernels.shape import DecoderShape

    model.check_tp(tp)
    group = model.groups[0]
    shape = DecoderShape(
        num_layers=model.num_layers,
        hidden_size=model.hidden_size,
        num_heads=model.num_heads // tp,
        num_kv_heads=group.kv_heads_per_rank(tp) or 1,
        head_dim=model.head_dim,
        intermediate_size=-(-model.intermediate_size // tp),
        vocab_size=-(-model.vocab_size // tp),
    )
    if len(model.groups) > 1 or group.kind != "full" or model.experts is not None:
        raise ValueError(
            f"{model.name} is not measured: {_what(model)}; give a dense model with full attention "
            "in all layers (costs of the others are derived from its profile)"
        )
    params = model.params.layer_linear / model.num_layers / tp
    if abs(shape.layer_weights / params - 1) > _BIASES:
        raise ValueError(
            f"{model.name} is not measured: its layers are not q/k/v, output, gate-up and down "
            "products of a gated dense decoder; give a Llama-like model"
        )
    return shape


def make_decoder(
    shape: DecoderShape, *, device: torch.device, dtype: str, num_blocks: int, block_size: int
) -> Decoder:
    """Real decoder with random weights. Raises ``ValueError`` for a dtype that is none."""
    import torch

    from kvsim.calibrate.measure.device import DTYPES
    from kvsim.kernels.decoder import Decoder

    if dtype not in DTYPES:
        raise ValueError(f"--dtype {dtype!r} is not measured; choices: {', '.join(DTYPES)}")
    return Decoder(
        shape,
        num_blocks=num_blocks,
        block_size=block_size,
        device=device,
        dtype=getattr(torch, DTYPES[dtype]),
    )


def _what(model: ModelSpec) -> str:
    if model.experts is not None:
        return f"its layers have {model.experts.num_experts} routed experts"
    kinds = ", ".join(dict.fromkeys(group.kind for group in model.groups))
    return f"its layers are of the kinds {kinds}"
