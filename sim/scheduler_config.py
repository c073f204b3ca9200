"""Moved to kvsim.policies.scheduler_config; this alias goes at integration."""

from kvsim.policies.scheduler_config import KVGroup, SchedulerConfig

__all__ = ["KVGroup", "SchedulerConfig"]
