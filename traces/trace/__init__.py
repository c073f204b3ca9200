"""The trace itself: one numpy column per fact about a request, and what can be read off it.

The door is :class:`~kvsim.traces.trace.trace.Trace`; beside it stand its receipt, the tree of its
prefix ids, its statistics, and the columns of kvsim's own format.
"""
