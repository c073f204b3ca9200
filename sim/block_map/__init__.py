"""The pool as a picture: snapshots of what lies where, a page, stills and animations of them.

The door is :mod:`~kvsim.sim.block_map.block_map`; ``places``
says where an allocator's blocks are.
"""

from kvsim.sim.block_map.block_map import BlockMap
from kvsim.sim.block_map.pool_facts import PoolFacts
from kvsim.sim.block_map.record_options import RecordOptions
from kvsim.sim.block_map.recording import BlockRecording

__all__ = ["BlockMap", "BlockRecording", "PoolFacts", "RecordOptions"]
