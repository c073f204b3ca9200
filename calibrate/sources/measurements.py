"""What one source measured for one layer of a model on one card, whatever its file format.

All times are microseconds. Readers (:mod:`kvsim.calibrate.sources`) turn tables into this; the fit
(:mod:`kvsim.calibrate.fit.fit`) knows nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from kvsim.calibrate.sources.points import Points, no_points

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvsim.sim.models import ModelSpec

BLOCKS: Final = (
    "layer", "experts", "decode_attention", "prefill_attention", "mixed_attention", "head",
    "all_reduce", "step", "prompt",
)  # fmt: skip
"""What a profile is made of, the check of left-out weight shapes apart."""


@dataclass(frozen=True, slots=True)
class Measurements:
    """Points by block; an empty block was not measured.

    ==================  ========================================  ==============================
    block               loads                                     time of
    ==================  ========================================  ==============================
    layer               tokens                                    dense products of a layer
    splits              weight_bytes                              that layer at the fewest
                                                                  tokens, on 1, 2, 4, ... ranks
    shapes              shape, tokens, estimate                   one product, whose shape was
                                                                  left out of ``estimate`` (us)
    experts             tokens, activated                         routed experts of a layer
    decode_attention    batch, context                            one call, equal contexts
    prefill_attention   requests, chunk, past                     one call
    mixed_attention     chunk, past, num_decodes, context         one call
    head                batch                                     lm_head (and sampler)
    all_reduce[n]       message_bytes                             one all-reduce over n cards
    step                batch, context                            a whole decode step
    prompt              requests, chunk                           a whole prefill step
    ==================  ========================================  ==============================
    """

    hardware: str
    """Card as :func:`kvsim.sim.hardware.load_hardware` names it."""
    model: ModelSpec
    tp: int
    source: str
    kernels: Mapping[str, str]
    layer: Points = field(default_factory=lambda: no_points("tokens"))
    splits: Points = field(default_factory=lambda: no_points("weight_bytes"))
    shapes: Points = field(default_factory=lambda: no_points("shape", "tokens", "estimate"))
    experts: Points = field(default_factory=lambda: no_points("tokens", "activated"))
    decode_attention: Points = field(default_factory=lambda: no_points("batch", "context"))
    prefill_attention: Points = field(
        default_factory=lambda: no_points("requests", "chunk", "past")
    )
    mixed_attention: Points = field(
        default_factory=lambda: no_points("chunk", "past", "num_decodes", "context")
    )
    head: Points = field(default_factory=lambda: no_points("batch"))
    all_reduce: Mapping[int, Points] = field(default_factory=dict)
    step: Points = field(default_factory=lambda: no_points("batch", "context"))
    prompt: Points = field(default_factory=lambda: no_points("requests", "chunk"))
    notes: tuple[str, ...] = ()
    """Sentences on what the tables leave out, for the profile's ``assumed``."""


def filled_from(first: Measurements, second: Measurements) -> Measurements:
    """``first``, with the blocks it lacks from ``second``, of the same card, model and split."""
    for key in ("hardware", "model", "tp"):
        if getattr(first, key) != getattr(second, key):
            raise ValueError(f"{key} differs: {getattr(first, key)}, {getattr(second, key)}")
    lacking: dict[str, Any] = {
        field.name: getattr(second, field.name)
        for field in fields(Measurements)
        if field.name in BLOCKS
        and not len(getattr(first, field.name))
        and len(getattr(second, field.name))
    }
    return replace(
        first,
        **lacking,
        source=f"{first.source}; {', '.join(lacking)}: {second.source}",
        kernels={**second.kernels, **first.kernels},
    )
