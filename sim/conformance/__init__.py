"""Simulated schedules compared with recorded ones, and checks of the engines and policies.

The main function is :func:`~kvsim.sim.conformance.schedule_replay.replay`.
"""
