"""The optimisation: many decode steps at once, with the same integers as the stepper.

The door is :class:`~kvsim.sim.leaping.leaper.Leaper`; :mod:`kvsim.sim.run.engine_choice` says when
it runs.
"""
