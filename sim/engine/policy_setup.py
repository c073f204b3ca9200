"""Build the policies of an engine by name; each may use those built before it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kvsim.policies.allocators import make_allocator
from kvsim.policies.batching import BATCHING, SchedulerState
from kvsim.policies.context import PolicyContext
from kvsim.policies.predictor import PREDICTORS
from kvsim.policies.preemption import MODES, VICTIMS
from kvsim.policies.queue_order import QUEUE_ORDERS
from kvsim.policies.registry import build
from kvsim.sim.engine.cost_for_policies import StepWorkCost
from kvsim.sim.engine.next_use import NextUse

if TYPE_CHECKING:
    from kvsim.policies.batching import Batching
    from kvsim.policies.scheduler_config import SchedulerConfig
    from kvsim.sim.cost.host_link import HostLink
    from kvsim.sim.cost.step_cost import StepCost
    from kvsim.sim.engine.requests import Requests


def set_up_policies(
    config: SchedulerConfig, cost: StepCost, requests: Requests, link: HostLink | None, seed: int
) -> tuple[SchedulerState, Batching]:
    """Return an engine state without requests, and the batching policy.

    The predictor is built first. The allocator may use it. Queue order, preemption and batching may
    use both. The returned state contains no true lengths.
    """
    context = PolicyContext(
        config,
        cost=StepWorkCost(cost, config),
        link=link,
        seed=seed,
        truth=requests,
        future=NextUse(requests),
    )
    context = replace(context, predictor=build(PREDICTORS.find(config.predictor.kind), context))
    allocator = make_allocator(context)
    context = replace(context, cached_tokens=lambda sequence: allocator.find_hit(sequence).tokens)
    state = SchedulerState(
        replace(context, truth=None, future=None),
        allocator,
        build(QUEUE_ORDERS.find(config.queue.policy), context),
        VICTIMS.find(config.preemption.victim),
        MODES[config.preemption.mode](context),
    )
    return state, build(BATCHING.find(config.batching.policy), context)
