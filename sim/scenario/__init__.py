"""What is simulated: settings tables, presets, TOML files, and the engine's set-up.

The doors are :class:`~kvsim.sim.scenario.scenario.Scenario` and
:func:`~kvsim.sim.scenario.setup.set_up`.
"""
