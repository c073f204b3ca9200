"""From measured points to the coefficients of a profile, with their hold-out errors.

The door is :func:`~kvsim.calibrate.fit.fit.fit_profile`.
"""
