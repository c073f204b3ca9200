"""The fast engine: many decode steps at once, with the same integers as the stepper.

The engine is :class:`~kvsim.sim.leaping.leaper.Leaper`. :mod:`kvsim.sim.run.engine_choice` decides
when it runs.
"""
