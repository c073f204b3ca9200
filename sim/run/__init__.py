"""The Python door: a trace and a scenario in, a :class:`~kvsim.sim.run.run.Run` and its folder out.

The door is :func:`~kvsim.sim.run.run.simulate`.
"""
