"""What an engine leaves behind: exact integer sums of what happened.

The door is :class:`~kvsim.sim.recording.recorder.Recorder`; metrics read it, engines write it.
"""
