"""The prefix cache of the leaper, stored as runs of blocks.

The main class is :class:`~kvsim.sim.leaping.cache.segment_cache.SegmentCache`.
"""
