"""Folders that keep results: where they may be, and how they are written whole.

The door is :mod:`~kvsim.sim.folders.place`.
"""
