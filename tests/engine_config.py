"""Engine options for tests, in one list: ``engine_config(queue__policy="sjf", max_num_seqs=4)``."""

from __future__ import annotations

from kvsim.policies.scheduler_config import SchedulerConfig

DEFAULTS = SchedulerConfig()


def engine_config(base: SchedulerConfig = DEFAULTS, /, **options: object) -> SchedulerConfig:
    """``base``, or the defaults, with options replaced; ``table__option`` is one of a table's."""
    values = {name.replace("__", "."): value for name, value in options.items()}
    return base.with_values(values)
