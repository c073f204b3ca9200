"""The prefix cache of the leaper, kept in runs of blocks.

The door is :class:`~kvsim.sim.leaping.cache.segment_cache.SegmentCache`.
"""
