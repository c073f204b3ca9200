"""The specification of what happens: the main loop, and one step at a time.

The door is :class:`~kvsim.sim.engine.driver.Driver`, the main loop; a step is specified by
:mod:`~kvsim.sim.engine.stepper`. :func:`kvsim.sim.run.drive.run` puts an engine into the loop.
"""
