"""Comparisons of several scenarios on the same traces: one table and one page.

The door is :func:`~kvsim.sim.comparison.comparison.compare`.
"""
