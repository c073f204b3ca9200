"""Under construction."""
from __future__ import annotations
class Leaper:
    name = "leaper"
def leapable(config):
    return False, "not yet"
