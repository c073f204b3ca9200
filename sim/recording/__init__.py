"""The results of an engine: exact integer sums of what happened.

The main class is :class:`~kvsim.sim.recording.recorder.Recorder`. Engines write it, and metrics
read it.
"""
