"""The cost of a step: a profile or a datasheet in, integer picoseconds out.

The main function is :func:`~kvsim.sim.cost.sources.build_cost`. The contract is
:class:`~kvsim.sim.cost.step_cost.StepCost`.
"""
