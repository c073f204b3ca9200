"""The optimisation: many decode steps at once, with the same integers as the stepper.

The door is :class:`~kvsim.sim.leaping.leaper.Leaper`; ``sim/run/choice.py`` says when it is used.
"""
