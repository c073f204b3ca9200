"""What running engines and load tools logged, read as measured runs, and fits to them.

The doors are :mod:`~kvsim.calibrate.engine_logs.run_logs` and ``endpoint``.
"""
