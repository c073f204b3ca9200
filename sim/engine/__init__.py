"""The specification of what happens: the main loop, and one step at a time.

The door is :func:`~kvsim.sim.engine.driver.run`; :mod:`~kvsim.sim.engine.stepper` is the
specification of a step.
"""
