"""Several scenarios side by side: one trace, one table, one page.

The door is :func:`~kvsim.sim.comparison.comparison.compare`.
"""
