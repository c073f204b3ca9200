"""Folders that keep results: their names, and those of the files in them.

How they come whole or not at all is in :mod:`kvsim.traces.common.files`; the door here is
:mod:`~kvsim.sim.folders.place`.
"""
