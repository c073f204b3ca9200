"""How much of the prompts a prefix cache of each size would serve, without any timing.

``measure_reuse`` is the way in; ``docs/reuse.md`` is the user's page. The two definitions of a
cache that live here count whole traces the way papers do; engines keep their own order of touches.
"""

from kvsim.traces.reuse.accesses import Accesses
from kvsim.traces.reuse.ceiling import Ceiling, ceiling_of
from kvsim.traces.reuse.curve import Curve, Hits
from kvsim.traces.reuse.measure import DEFINITIONS, Reuse, measure_reuse
from kvsim.traces.reuse.replay import POLICIES, replay

__all__ = [
    "DEFINITIONS",
    "POLICIES",
    "Accesses",
    "Ceiling",
    "Curve",
    "Hits",
    "Reuse",
    "ceiling_of",
    "measure_reuse",
    "replay",
]
