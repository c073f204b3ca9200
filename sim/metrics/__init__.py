"""From a recorder to the summary: latencies, memory, phases, waiting and the verdict.

The door is :func:`~kvsim.sim.metrics.summary.summarise_run`.
"""
