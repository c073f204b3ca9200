"""Our schedule against recorded ones, and against itself.

The door is :func:`~kvsim.sim.conformance.schedule_replay.replay`.
"""
