"""Where each kind of allocator puts its blocks, as rows and cells of a picture.

The door is :mod:`~kvsim.sim.block_map.places.base`.
"""
