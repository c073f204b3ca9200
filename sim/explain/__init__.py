"""Why a run came out as it did, request by request.

The doors are :func:`~kvsim.sim.explain.explain.explain` and :mod:`~kvsim.sim.explain.timeline`.
"""
