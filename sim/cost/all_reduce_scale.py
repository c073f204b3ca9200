"""All-reduces of a step: as measured for the number of cards, else from the link (assumed)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsim.sim.cost.product_scale import whole_ps
from kvsim.sim.cost.profile_cost import TokenCost

if TYPE_CHECKING:
    from kvsim.sim.cost.deployment import Deployment
    from kvsim.sim.cost.profile import Profile, TokenTerm
    from kvsim.sim.models import ModelSpec

ALL_REDUCES_PER_LAYER = 2
ALL_REDUCE_LATENCY_US = 5.0
ALL_REDUCE_LINK_FRACTION = 0.35
"""Of one direction of the link; 2-8 card tables of A100 and H100 lie at 0.23-0.52."""


def all_reduce_cost(profile: Profile, deployment: Deployment) -> TokenCost:
    """All all-reduces of a step by its tokens; activations have 16 bits."""
    tp, hardware = deployment.tp, deployment.hardware
    if tp == 1:
        return TokenCost(((0, 0),))
    term = profile.all_reduce.get(str(tp))
    if term is not None:
        return _measured_all_reduce(term, deployment.model)
    rate = hardware.link_bytes_per_s or hardware.host_link_bytes_per_s
    if not rate:
        raise ValueError(f"{hardware.name} has no link to a second card, so tp={tp} has no cost")
    count = ALL_REDUCES_PER_LAYER * deployment.model.num_layers
    token_bytes = 2 * deployment.model.hidden_size
    token_us = 2 * (tp - 1) / tp * token_bytes / (ALL_REDUCE_LINK_FRACTION * rate) * 1e6
    return TokenCost(((whole_ps(count * ALL_REDUCE_LATENCY_US), whole_ps(count * token_us)),))


def _measured_all_reduce(term: TokenTerm, model: ModelSpec) -> TokenCost:
    """All all-reduces of a step, by tokens; activations have 16 bits."""
    count = ALL_REDUCES_PER_LAYER * model.num_layers
    token_bytes = 2 * model.hidden_size
    if not term.knots:
        return TokenCost(
            tuple(
                (whole_ps(count * us), whole_ps(count * slope * token_bytes))
                for us, slope in term.pieces
            )
        )
    table = TokenCost((), tuple((size, whole_ps(us)) for size, us in term.knots))
    tokens = sorted({max(-(-size // token_bytes), 1) for size, _ in term.knots})
    if len(tokens) == 1:
        tokens.append(tokens[0] + 1)
    return TokenCost((), tuple((n, count * table.at(n * token_bytes)) for n in tokens))
