"""Sessions of a trace while it is read: which turn follows which, and when a session begins.

The door is :mod:`~kvsim.traces.reading.sessions.sessions`.
"""
