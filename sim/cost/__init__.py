"""What a step costs: a profile or a datasheet in, integer picoseconds out.

The door is :func:`~kvsim.sim.cost.sources.build_cost`; the contract is
:class:`~kvsim.sim.cost.step_cost.StepCost`.
"""
