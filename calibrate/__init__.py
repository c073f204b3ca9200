"""What it costs: step costs measured on a device, or fitted to other people's measurements.

The door is :func:`~kvsim.calibrate.calibration.plan_calibration`. ``measure`` times kernels,
``sources`` reads published tables, ``fit`` makes a profile of either, ``engine_logs`` reads what
engines logged, and ``validate`` compares the simulator with them.
"""
