"""The simulator against measured runs, and against the real decoder on this device.

The doors are :func:`~kvsim.calibrate.validate.measured_replay.replay` and ``local_validation``.
"""
