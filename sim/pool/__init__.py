"""The KV pool that a card leaves, by the rule of each engine.

The main function is :func:`~kvsim.sim.pool.plan.plan`: a card, a model and memory settings in,
blocks out.
"""
