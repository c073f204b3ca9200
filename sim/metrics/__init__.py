"""Metrics of a run from its recorder: latencies, memory, phases, waiting and the verdict.

The door is :func:`~kvsim.sim.metrics.summary.summarise_run`.
"""
